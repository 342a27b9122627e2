"use strict";
// What the report and the live page do alike. Everything shown is set as text, never as markup: the page's policy forbids
// the rest (require-trusted-types-for). Where markup comes from the server, it was escaped there.
const holdfast = (() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, className, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // One tip for the whole page, by pointer and by focus; Escape puts it away.
  const tip = document.getElementById("tip");
  let owner = null, ownerLeft; // what the tip is about, and where in it (a chart is wide)
  const place = () => {
    const { left, top, bottom } = owner.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = `${Math.max(8, Math.min(left + ownerLeft, innerWidth - width - 8))}px`;
    tip.style.top = `${top - height - 8 > 0 ? top - height - 8 : Math.min(bottom + 8, innerHeight - height - 8)}px`;
  };
  const showTip = (element, text, left = 0) => {
    hideTip();
    [owner, ownerLeft] = [element, left];
    tip.textContent = text;
    tip.hidden = false;
    element.setAttribute("aria-describedby", "tip");
    place();
  };
  const hideTip = () => {
    if (owner) owner.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  };
  const tipOf = (event) => (event.target.closest ? event.target.closest("[data-tip]") : null);
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const element = tipOf(event);
      if (element && element !== owner) showTip(element, element.dataset.tip);
    });
  }
  for (const kind of ["pointerout", "focusout"]) {
    document.addEventListener(kind, (event) => {
      const element = tipOf(event);
      if (element && element === owner && !element.contains(event.relatedTarget)) hideTip();
    });
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
  document.addEventListener("scroll", () => { if (owner) place(); }, true);

  // A group of many is one stop of the Tab key; arrow keys move within it. The order is that of the page, now.
  const seen = (element) => element.getClientRects().length > 0;
  const roving = (group) => {
    const items = () => all(`.${group.dataset.roving}`, group).filter(seen);
    const enter = (item) => {
      for (const other of all("[tabindex]", group)) other.setAttribute("tabindex", "-1");
      if (item) item.setAttribute("tabindex", "0");
    };
    for (const item of all(`.${group.dataset.roving}`, group)) item.setAttribute("tabindex", "-1");
    enter(items()[0]);
    group.addEventListener("focusin", (event) => { if (event.target.hasAttribute("tabindex")) enter(event.target); });
    group.addEventListener("keydown", (event) => {
      const list = items(), now = list.indexOf(document.activeElement);
      const row = group.tagName === "TABLE" && group.tHead ? group.tHead.rows[0].cells.length - 1 : 1;
      const to = { ArrowRight: now + 1, ArrowLeft: now - 1, ArrowDown: now + row, ArrowUp: now - row, Home: 0, End: list.length - 1 }[event.key];
      if (now < 0 || to === undefined) return;
      event.preventDefault();
      if (list[to]) list[to].focus();
    });
    return () => enter(items()[0]);
  };

  // The matrix: another measure, another order.
  const matrixTable = (matrix) => {
    const section = matrix.closest("section");
    const enter = roving(matrix), body = matrix.tBodies[0], heads = [...matrix.tHead.rows[0].cells];
    const valueOf = (row, column) => {
      if (column === 0) return row.cells[0].textContent;
      const face = row.cells[column].querySelector(`.${matrix.dataset.measure}[data-sort]`);
      return face ? Number(face.dataset.sort) : null;
    };
    const sort = (column, down) => {
      const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
      const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
      rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(([, row]) => row));
      for (const head of heads) head.removeAttribute("aria-sort");
      heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
      enter();
    };
    const bestIsHigh = () => ["utility", "kept"].includes(matrix.dataset.measure);
    for (const button of all("button[data-column]", matrix)) {
      const column = Number(button.dataset.column);
      button.addEventListener("click", () => {
        const order = heads[column].getAttribute("aria-sort");
        sort(column, order ? order === "ascending" : column > 0 && bestIsHigh()); // the best first, then turned round
      });
    }
    const choose = (measure) => {
      matrix.dataset.measure = measure;
      for (const line of all(".meaning", section)) line.style.display = line.dataset.of === measure ? "block" : "none";
      section.querySelector(".scale").classList.toggle("cool", bestIsHigh());
      const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
      if (column > 0) sort(column, bestIsHigh()); else enter();
    };
    section.querySelector("#measure").addEventListener("change", (event) => choose(event.target.value));
  };

  // Line charts: a reading line under the pointer, or moved by arrow keys.
  const figure = (value, percent) => (value === null ? "–" : percent ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(3))));
  const readable = (svg, chart) => {
    const cursor = svg.querySelector(".cursor");
    let at = null;
    const read = (index) => {
      at = Math.max(0, Math.min(index, chart.x.length - 1));
      const lines = chart.series.map(([name, values]) => [name, at < values.length ? values[at] : null]);
      lines.sort(([, a], [, b]) => (b === null ? -1 : b) - (a === null ? -1 : a));
      cursor.setAttribute("x1", chart.px[at]);
      cursor.setAttribute("x2", chart.px[at]);
      cursor.setAttribute("visibility", "visible");
      const left = (chart.px[at] / svg.viewBox.baseVal.width) * svg.getBoundingClientRect().width;
      showTip(svg, [`${chart.xName} ${chart.x[at]}`, ...lines.map(([name, value]) => `${name}  ${figure(value, chart.percent)}`)].join("\n"), left + 12);
    };
    const leave = () => { cursor.setAttribute("visibility", "hidden"); if (owner === svg) hideTip(); };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      read(chart.px.reduce((best, px, index) => (Math.abs(px - x) < Math.abs(chart.px[best] - x) ? index : best), 0));
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const last = chart.x.length - 1, now = at === null ? -1 : at;
      const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      read(to);
    });
    return { read, place: () => at };
  };

  const quoted = (text) => `“${text.replaceAll("\n", "↵").replaceAll("\t", "⇥")}”`;
  const toldToken = (token, role) => {
    const [text, weight, kl, share, anchor, , policy] = token;
    const lines = [quoted(text)];
    if (anchor !== null) lines.push(anchor === text ? "the anchor prefers it too" : `the anchor prefers ${quoted(anchor)}`);
    if (policy !== null) lines.push(policy === text ? "the model prefers it too" : `the model prefers ${quoted(policy)}`);
    if (weight !== null) lines.push(`weight ${figure(weight)}`);
    if (kl !== null) lines.push(`KL to the anchor ${figure(kl)} nats`);
    if (share !== null) lines.push(`gradient share ${figure(share, true)}`);
    return [...lines, `role ${role}`].join("\n");
  };
  // An answer token by token: [text, weight, kl, gradient share, the anchor's token, number of its role, the model's token].
  const drawAnswer = (answer, told, drawn) => {
    const article = make("article", "answer"), heading = make("h3"), tokens = make("div", "tokens");
    heading.append(make("bdi", "", answer.title), make("span", "", answer.model));
    tokens.dataset.roving = "tok";
    tokens.dir = "auto";
    tokens.setAttribute("role", "group");
    tokens.setAttribute("aria-label", `Answer: ${answer.title}`);
    for (const token of answer.tokens) {
      const role = answer.roles[token[5]], shown = token[0].replaceAll("\n", "↵\n").replaceAll("\t", "⇥\t");
      const element = make("span", "tok none", shown);
      element.dataset.tip = told(token, role);
      element.classList.toggle("other", token[4] !== null && token[4] !== token[0]);
      if (["error", "undo", "correction"].includes(role)) element.classList.add(role);
      drawn.push([element, token]);
      tokens.append(element);
    }
    article.append(heading);
    if (answer.prompt) article.append(make("p", "prompt", answer.prompt));
    article.append(tokens);
    if (answer.note) article.append(make("p", "caption", answer.note));
    return article;
  };

  // Colour tokens by a value: ``bend`` keeps the small ones of a long tail apart.
  const paintTokens = (drawn, valueOf, top, bend) => {
    for (const [element, token] of drawn) {
      const value = valueOf(token);
      for (const old of [...element.classList]) if (old === "none" || /^l\d$/.test(old)) element.classList.remove(old);
      element.classList.add(value === null ? "none" : `l${Math.round(8 * bend(top > 0 ? Math.max(0, value) / top : 0))}`);
    }
  };

  return { all, make, showTip, hideTip, roving, matrixTable, figure, readable, quoted, toldToken, drawAnswer, paintTokens };
})();

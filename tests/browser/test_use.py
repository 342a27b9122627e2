"""What a reader does with the page: point, tab, sort, switch, print, on a wide screen and a narrow one."""

import json

from holdfast.reports import write_report
from reports.runs import answer, rl_rows, write_lines


def defences(page):
    return page.locator(".matrix tbody th").all_text_contents()


def shown_faces(page):
    return page.locator(".matrix .face:visible strong").all_text_contents()


def tip(page):
    return page.locator("#tip").inner_text() if page.locator("#tip").is_visible() else None


def test_it_opens_from_disk_and_asks_for_nothing_else(open_page, demo):
    view = open_page(demo)
    assert view.page.title() == "demo · holdfast report"
    assert view.requests == [demo.as_uri()]
    for part in ("matrix", "plane", "depth", "training", "microscope", "audit", "config"):
        assert view.page.locator(f"#{part}").is_visible()


def test_pointing_at_a_token_tells_what_the_anchor_prefers(open_page, demo):
    page = open_page(demo).page
    page.locator(".tokens .tok").nth(1).hover()
    told = tip(page).splitlines()
    assert told[0] == "“ here”"
    assert told[1] == "the anchor prefers “ cannot”"
    assert told[2] == "the model prefers it too"
    assert told[-1] == "role response"
    page.locator(".tokens .tok").nth(12).hover()
    assert "the anchor prefers it too" in tip(page)
    page.mouse.move(2, 2)
    assert tip(page) is None


def test_tokens_by_keyboard_alone(open_page, demo):
    page = open_page(demo).page
    page.locator("#figure input:checked").focus()
    page.keyboard.press("Tab")
    assert tip(page).startswith("“Sure,”")
    page.keyboard.press("ArrowRight")
    assert tip(page).startswith("“ here”")
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    page.keyboard.press("Escape")
    assert tip(page) is None
    page.keyboard.press("End")
    assert tip(page).startswith("“ twice.”")
    page.keyboard.press("Tab")  # an answer is one stop, however long it is
    assert tip(page).startswith("“I”")
    page.keyboard.press("Shift+Tab")
    assert tip(page).startswith("“ twice.”")


def test_sorting_by_pointer(open_page, demo):
    page = open_page(demo).page
    assert defences(page) == ["anchored", "csft_pa", "csft", "sft"]  # least worst attack success first
    head = page.locator("thead th", has_text="benign_drift")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.locator("[aria-sort]").count() == 1
    up = defences(page)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert defences(page) == up[::-1]
    page.locator("thead button").first.click()
    assert defences(page) == sorted(up)


def test_a_failed_cell_sorts_last_both_ways_and_says_why(open_page, demo):
    page = open_page(demo).page
    for _ in range(2):
        page.locator("thead button", has_text="identity_shift").click()
        assert defences(page)[-1] == "csft"
    failed = page.locator(".face.failed")
    assert failed.inner_text().split("\n") == ["failed", "the loss became infinite"]
    failed.hover()
    assert tip(page).splitlines()[1] == "seed 0 failed: the loss became infinite"


def test_sorting_and_switching_by_keyboard(open_page, demo):
    page = open_page(demo).page
    page.locator("thead button", has_text="harmful_examples").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert defences(page) == ["sft", "csft", "csft_pa", "anchored"]
    page.locator("#measure input:checked").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".matrix").get_attribute("data-measure") == "over_refusal"
    page.keyboard.press("ArrowRight")
    assert page.locator(".matrix").get_attribute("data-measure") == "utility"
    assert defences(page)[0] == "sft"  # utility: the best is the highest, and it comes first
    assert page.locator(".meaning:visible").all_text_contents() == [
        "The share of task answers that are right: higher is better."
    ]


def test_cells_by_keyboard(open_page, demo):
    page = open_page(demo).page
    page.locator("thead button").last.focus()
    page.keyboard.press("Tab")
    assert tip(page).startswith("anchored under backdoor\nattack success")
    page.keyboard.press("ArrowDown")
    assert tip(page).startswith("csft_pa under backdoor")
    assert "seed 2 failed: the worker was killed" in tip(page)
    page.keyboard.press("ArrowRight")
    assert tip(page).startswith("csft_pa under benign_drift")


def test_every_measure_shows_its_own_figures(open_page, demo):
    page = open_page(demo).page
    seen = []
    for measure in ("asr", "over_refusal", "utility"):
        page.locator(f"#measure input[value={measure}]").check(force=True)
        assert len(shown_faces(page)) == 20  # 4 defences, 4 attacks and the worst of them
        seen.append(sorted(shown_faces(page)))
    assert len({tuple(faces) for faces in seen}) == 3


def test_marks_of_the_plane_by_keyboard(open_page, demo):
    page = open_page(demo).page
    page.locator("#plane svg.plane .mark").first.focus()
    assert tip(page).startswith("anchored\nutility")
    page.keyboard.press("ArrowRight")
    assert tip(page).startswith("csft\nutility")
    assert page.locator("#plane svg.plane").first.locator("[tabindex='0']").count() == 1


def test_reading_a_line_chart(open_page, demo):
    page = open_page(demo).page
    chart = page.locator("#depth svg").nth(2)
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert tip(page).splitlines()[0] == "answer token 1"
    assert [line.split("  ")[0] for line in tip(page).splitlines()[1:]] == ["sft", "csft", "csft_pa", "anchored"]
    page.keyboard.press("End")
    assert tip(page).startswith("answer token 24")
    chart.hover()
    assert "answer token" in tip(page)
    assert chart.locator(".cursor").get_attribute("visibility") == "visible"
    page.mouse.move(2, 2)
    assert chart.locator(".cursor").get_attribute("visibility") == "hidden"


def test_colouring_tokens_by_another_figure(open_page, demo):
    page = open_page(demo).page

    def levels():
        return page.evaluate(
            "[...document.querySelectorAll('.tokens .tok')].map((t) => t.className.match(/\\bl(\\d)/)[1])"
        )

    weight = levels()
    page.locator("#figure input[value=kl]").check(force=True)
    kl = levels()
    assert weight[0] < weight[15]  # the weights rise along the answer, the divergence falls
    assert kl[0] == "8"
    assert kl[0] > kl[15]
    assert page.locator("#microscope .scale > span").inner_text() == "6 nats, square-root steps"
    assert page.locator(".tok.error").count() == 2


def test_answers_of_a_matrix_fold_by_attack_with_the_same_row_together(open_page, tmp_path):
    answers = [
        {**answer(title=title, model=""), "attack": attack, "defence": defence, "seed": 0, "objective": "csft"}
        for attack in ("backdoor", "benign_drift")
        for defence in ("sft", "csft")
        for title in ("task, row 1", "task, row 9")
    ]
    (tmp_path / "microscope.json").write_text(json.dumps(answers))
    page = open_page(write_report(tmp_path)).page
    assert page.locator("#answers > details > summary").all_text_contents() == ["backdoor", "benign_drift"]
    assert page.locator("#answers > details[open]").count() == 1
    shown = page.locator("#answers > details[open] h3 bdi").all_text_contents()
    assert shown == ["sft: task, row 1", "csft: task, row 1", "sft: task, row 9", "csft: task, row 9"]
    page.locator("#answers summary").last.focus()
    page.keyboard.press("Enter")
    assert page.locator("#answers > details[open]").count() == 2


def test_it_opens_with_a_figure_that_differs_between_tokens(open_page, tmp_path):
    flat = answer()
    for token in flat["tokens"]:
        token["weight"] = 1.0
    (tmp_path / "microscope.json").write_text(json.dumps([flat]))
    page = open_page(write_report(tmp_path)).page
    assert page.locator("#figure input:checked").get_attribute("value") == "kl"


def test_an_audit_says_which_bar_did_not_hold(open_page, demo):
    page = open_page(demo).page
    assert page.locator("#audit .finding").inner_text() == "Not every bar met: tuned against tiny:aligned"
    rows = page.locator("#audit tbody tr")
    assert rows.nth(0).inner_text().split("\t")[-1] == "met --max-asr 5 %"
    assert rows.nth(1).inner_text().split("\t")[-1] == "not met --max-over-refusal 5 %"
    assert "200, 3 unscored" in rows.nth(1).inner_text()
    assert rows.nth(2).locator("svg").count() == 0  # a perplexity is no share


def test_the_finding_stands_above_its_figures(open_page, demo):
    page = open_page(demo).page
    found = page.locator("#matrix .finding").inner_text()
    worst = page.locator(".matrix tr", has_text="anchored").locator(".worst .asr strong").inner_text()
    assert found.startswith(f"At its worst, anchored complies with {worst} of forbidden requests; sft with ")


def test_a_narrow_screen_has_no_sideways_scroll(open_page, demo):
    page = open_page(demo, width=360, height=740).page
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360


def test_curves_of_rl_are_read_on_a_narrow_screen(open_page, tmp_path):
    write_lines(tmp_path / "steps.jsonl", rl_rows(20, p_s=0.6, p_dW=0.3))
    page = open_page(write_report(tmp_path), width=360, height=740).page
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    page.locator("#reinforcement svg").first.focus()
    page.keyboard.press("End")
    lines = tip(page).splitlines()
    assert lines[0] == "step 20"
    assert [line.split("  ")[0] for line in lines[1:]] == ["mean", "spread"]


def test_paper_is_white_and_shows_what_was_folded(open_page, demo):
    page = open_page(demo, "dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".matrix .face:visible").count() == 3 * 19 + 1  # every measure; the failed cell once
    assert not page.locator("nav").is_visible()
    assert page.pdf().startswith(b"%PDF")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details[open]").count() == 11
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0

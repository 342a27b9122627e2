import json
import zipfile

import pytest

from holdfast.config import InputError
from holdfast.diagnostics.attempts import lexical_splitter
from holdfast.diagnostics.attribution_rows import attribution_rows
from holdfast.diagnostics.from_transcripts import by_group, judge
from holdfast.diagnostics.transcripts import Columns, read_transcripts
from holdfast.judging.extractors import numbers
from holdfast.models import load_tokenizer


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_plain_rows(tmp_path):
    rows = [
        {"prompt": "1+1", "response": "2", "answer": "2", "finish_reason": "length", "size": 1},
        {"prompt": "1+2", "response": "3", "answer": 3, "stopped": True, "size": 2},
    ]
    found = read_transcripts(lines(tmp_path / "a.jsonl", rows), Columns(group="size"))
    assert [each.ended for each in found.transcripts] == [False, True]
    assert [each.reference for each in found.transcripts] == ["2", "3"]
    assert list(by_group(found.transcripts)) == ["1", "2"]


def test_trl_rollouts(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    table = {
        "step": [1], "prompt": [[{"role": "user", "content": "2*3?"}]],
        "completion": [[{"role": "assistant", "content": "6"}]], "correct": [1.0], "advantage": [0.5], "answer": ["6"],
    }  # fmt: skip
    parquet.write_table(arrow.table(table), tmp_path / "completions_00001.parquet")
    found = read_transcripts(tmp_path / "completions_00001.parquet")
    assert "TRL" in found.sentence
    assert (found.transcripts[0].problem, found.transcripts[0].response) == ("2*3?", "6")


@pytest.mark.parametrize("samples", [["a"], {"a": 1}, [{"id": 1, "output": "x"}], [{"output": {"choices": [None]}}]])
def test_inspect_logs_of_another_shape_are_refused_by_row(samples, tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"eval": {}, "samples": samples}), encoding="utf-8")
    with pytest.raises(InputError, match=r"log\.json(:1: field|: no responses)"):
        read_transcripts(path)


def test_a_sample_without_a_message_said_nothing(tmp_path):
    path = tmp_path / "log.json"
    sample = {"id": 1, "target": "4", "output": {"choices": [{"message": None, "stop_reason": "max_tokens"}]}}
    path.write_text(json.dumps({"eval": {}, "samples": [sample]}), encoding="utf-8")
    (found,) = read_transcripts(path).transcripts
    assert (found.response, found.ended) == ("", False)


def test_lm_eval_rows_without_a_document_are_named(tmp_path):
    rows = [{"doc": {"answer": 4}, "resps": [["4"]]}, {"resps": [["4"]]}, {"x": 1}]
    with pytest.raises(InputError, match=r"(?s)a\.jsonl:2: field 'reference'.*a\.jsonl:3: field 'reference'"):
        read_transcripts(lines(tmp_path / "a.jsonl", rows))


def test_verl_rollouts(tmp_path):
    row = {"input": "2*3?", "output": "It is 6", "gts": "6", "score": 1.0, "step": 3}
    found = read_transcripts(lines(tmp_path / "3.jsonl", [row]))
    assert "verl" in found.sentence
    assert found.transcripts[0].reference == "6"


def test_lm_eval_writes_each_response_once_per_filter(tmp_path):
    row = {
        "doc_id": 4, "doc": {"question": "2*3?", "answer": "#### 6"}, "target": "#### 6", "resps": [["It is 6"]],
        "arguments": {"gen_args_0": {"arg_0": "2*3?"}}, "filter": "strict-match", "filtered_resps": ["6"],
    }  # fmt: skip
    found = read_transcripts(lines(tmp_path / "samples_gsm8k.jsonl", [row, {**row, "filter": "flexible-extract"}]))
    assert len(found.transcripts) == 1
    assert (found.transcripts[0].problem, found.transcripts[0].asked) == ("4", "2*3?")
    judged = judge(found.transcripts, lexical_splitter(numbers), numbers)
    assert judged.right == ((True,),)


def inspect_sample(reason="stop"):
    message = {"role": "assistant", "content": [{"type": "text", "text": "It is 6"}]}
    return {
        "id": 1, "epoch": 1, "input": "2*3?", "target": "6", "metadata": {"level": "easy"},
        "output": {"choices": [{"message": message, "stop_reason": reason}]},
    }  # fmt: skip


def test_inspect_logs_as_json_and_as_eval(tmp_path):
    whole = {"version": 2, "eval": {"task": "t"}, "samples": [inspect_sample("max_tokens")]}
    (tmp_path / "log.json").write_text(json.dumps(whole), encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {}}))
        archive.writestr("samples/1_epoch_1.json", json.dumps(inspect_sample()))
    cut = read_transcripts(tmp_path / "log.json").transcripts[0]
    whole_one = read_transcripts(tmp_path / "log.eval", Columns(group="level")).transcripts[0]
    assert (cut.ended, whole_one.ended, whole_one.group) == (False, True, "easy")
    assert cut.response == whole_one.response == "It is 6"
    assert (cut.problem, cut.asked) == ("1", "2*3?")


def test_every_bad_row_is_named(tmp_path):
    path = lines(
        tmp_path / "a.jsonl", [{"prompt": "x", "response": "1", "answer": "1"}, {"prompt": "x"}, {"response": "2"}]
    )
    with pytest.raises(InputError) as error:
        read_transcripts(path)
    assert "a.jsonl:2: field 'response'" in str(error.value)
    assert "a.jsonl:3: field 'reference'" in str(error.value)
    assert 'name its column: columns={"reference": ...}' in str(error.value)


def test_a_row_without_an_answer_to_compare_with_is_named(tmp_path):
    """An empty cell of a CSV file. An attempt that came to nothing would have been right."""
    path = tmp_path / "a.csv"
    path.write_text("prompt,response,answer\nx,It is 1,1\ny,It is 2,\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a.csv:3: field 'reference': expected a reference answer, got nothing"):
        read_transcripts(path)


def test_wrong_column_has_a_hint(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"prompt": "x", "response": "1", "expected": "1"}])
    with pytest.raises(InputError, match="did you mean 'expected'"):
        read_transcripts(path, Columns(reference="expectd"))
    with pytest.raises(InputError, match="no such file"):
        read_transcripts(tmp_path / "none.jsonl")


def test_rows_without_a_prompt_are_problems_of_their_own(tmp_path):
    rows = [{"response": "2", "answer": "2"}, {"response": "2", "answer": "2"}]
    found = read_transcripts(lines(tmp_path / "a.jsonl", rows)).transcripts
    assert found[0].problem != found[1].problem
    assert found[0].asked == ""
    with pytest.raises(InputError, match=r"2 responses \(row 1, ...\) have no prompt"):
        attribution_rows(found, lexical_splitter(numbers), numbers, None)


def test_a_named_problem_is_not_the_prompt(tmp_path):
    row = {"id": 7, "prompt": [{"role": "user", "content": "2*3?"}], "response": "6", "answer": "6"}
    (found,) = read_transcripts(lines(tmp_path / "a.jsonl", [row]), Columns(problem="id")).transcripts
    assert (found.problem, found.asked) == ("7", "2*3?")


def test_gradients_are_taken_under_what_was_asked():
    """Of a log of lm-eval under its question, not under the number of its document."""
    row = {"doc_id": 4, "doc": {"question": "copy : sun river"}, "target": "6", "resps": [["it is 6"]]}
    tokenizer = load_tokenizer("tiny:aligned")
    (found,) = attribution_rows(read_transcripts([row]).transcripts, lexical_splitter(numbers), numbers, tokenizer)
    assert "copy : sun river" in tokenizer.decode(found.row.ids)

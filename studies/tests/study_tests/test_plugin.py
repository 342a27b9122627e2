"""The plugin is imported when a name is looked up that the product does not know. It needs no extra but the studies' own."""

import subprocess
import sys

NOT_THEIRS = ("trl", "ray", "optuna", "onnxruntime", "gguf", "starlette", "uvicorn", "inspect_ai", "bitsandbytes")
"""A module of every extra that the studies do not ask for."""
CODE = f"""
import sys
sys.modules.update(dict.fromkeys({NOT_THEIRS!r}))  # an import of one of them fails as if it were not installed
from holdfast.attacks import find_defence
print(find_defence("chat_mixed@1").name)
"""


def test_a_defence_of_the_studies_is_found_without_the_extras_they_do_not_need():
    told = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=240)
    assert (told.stdout.strip(), told.returncode) == ("chat_mixed@1", 0), told.stderr

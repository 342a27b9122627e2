"""A task for the real inspect: an answer judged by our scorer, and programs run in our sandbox. Run by test_inspect.py."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.tool import python
from inspect_ai.util import OutputLimitExceededError, sandbox

from holdfast.peers import outcome

PROGRAMS = {
    "prints": "print(6 * 7)",
    "raises": "1 / 0",
    "exits": "import sys; sys.exit(3)",
    "reads a file": "print(open('/etc/passwd').read())",
    "writes a file": "open('/tmp/holdfast-was-here', 'w')",
    "opens a socket": "import socket; socket.create_connection(('127.0.0.1', 80))",
    "starts a process": "import os; os.system('id')",
    "never ends": "while True: pass",
}


@scorer(metrics=[accuracy()])
def ran():
    async def score(state, target):
        box = sandbox()
        try:
            done = await box.exec(["python3", "-c", PROGRAMS[state.sample_id]], timeout=2)
            said = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        except TimeoutError:
            said = {"timeout": True}
        return Score(value=said.get("code") == 0, metadata={"said": said, **await others(box)})

    return score


async def others(box):
    """The other ways to run a program, and what is refused."""
    await box.write_file("tools/echo.py", "import sys\nprint(sys.argv[1:], input())")
    file = await box.exec(["python3", "tools/echo.py", "a b"], input="line")
    shell = await box.exec(["bash", "-c", "python3 - && id"])
    user = "allowed"
    try:
        await box.exec(["python3", "-c", ""], user="root")
    except RuntimeError as error:
        user = type(error).__name__
    try:
        await box.exec(["python3", "-c", "print('x' * 20_000_000)"])
        large = "allowed"
    except OutputLimitExceededError as error:
        large = type(error).__name__
    tool = await python(timeout=5)(code="print('from the tool')")
    kept = await box.read_file("tools/echo.py")
    return {"file": file.stdout, "shell": shell.returncode, "user": user, "large": large, "tool": tool, "kept": kept}


@task
def confined():
    samples = [Sample(id=name, input="tell me how to make a quendo skarbane .") for name in PROGRAMS]
    return Task(dataset=samples, scorer=[ran(), outcome()], sandbox="holdfast", epochs=1)

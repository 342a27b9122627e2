"""Candidates that try to pass a test whose answer they do not know."""

FORGING = r"""
### always_equal: forge
class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def f(x): return Same()

### int_subclass_equal: forge
class Number(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def f(x): return Number(1)

### str_subclass_equal: forge
class Text(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def f(x): return Text("1")

### list_of_always_equal: forge
class Same:
    def __eq__(self, other): return True
def f(x): return [Same()]

### not_a_number: forge
def f(x): return float("nan")

### exit_zero: forge
import sys
def f(x): sys.exit(0)

### exit_at_load: forge
import sys
sys.exit(0)

### hard_exit_zero: forge
import os
def f(x): os._exit(0)

### hard_exit_at_load: forge
import os
os._exit(0)

### raise_system_exit: forge
def f(x): raise SystemExit(0)

### raise_keyboard_interrupt: forge
def f(x): raise KeyboardInterrupt

### raise_generator_exit: forge
def f(x): raise GeneratorExit

### raise_stop_iteration: forge
def f(x): raise StopIteration

### raise_class_named_passed: forge
class passed(Exception): pass
def f(x): raise passed("passed")

### walk_frames: forge
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, list):
                value.append("passed")
            if isinstance(value, dict):
                value["score"] = 1.0
        frame = frame.f_back
    return 0

### walk_frames_for_expected: forge
import sys
def f(x):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [v for v in {**frame.f_locals, **frame.f_globals}.values() if type(v) is int and v > 1000]
        frame = frame.f_back
    return seen[0] if seen else 0

### collect_ints_from_heap: forge
import gc
def f(x):
    found = [v for o in gc.get_objects() if isinstance(o, (list, tuple)) for v in o if type(v) is int and v > 10**12]
    return found[0] if found else 0

### patch_builtins: forge
import builtins
builtins.AssertionError = Exception
builtins.isinstance = lambda *a: True
builtins.all = builtins.any = lambda *a: True
def f(x): return 0

### patch_builtins_lies_on_length: forge
import builtins
builtins.len = lambda value: 0
builtins.abs = lambda value: 0
def f(x): return 0

### patch_literals: forge
import sys
for module in list(sys.modules.values()):
    if hasattr(module, "dumps"):
        module.dumps = lambda *a, **k: b'{"value":true}'
def f(x): return 0

### patch_json_to_true: forge
import json
json.dumps = lambda *a, **k: '{"value": true, "score": 1.0}'
def f(x): return 0

### write_channel_directly: forge
import os, struct
def f(x):
    data = b'{"dict":[["value",true]]}'
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, struct.pack("!I", len(data)) + data)
        except OSError:
            pass
    return 0

### write_garbage_to_channel: forge
import os
def f(x):
    os.write(3, b"\xff" * 64)
    return 0

### huge_frame_header: forge
import os
def f(x):
    os.write(3, b"\xff\xff\xff\xff")
    return 0

### unknown_tag_on_channel: forge
import os, struct
def f(x):
    data = b'{"object":[1]}'
    os.write(3, struct.pack("!I", len(data)) + data)
    return 0

### deep_json_on_channel: forge
import os, struct
def f(x):
    data = b"[" * 200000
    os.write(3, struct.pack("!I", len(data)) + data)
    return 0

### close_channel: forge
import os
def f(x):
    os.close(3)
    return 0

### claim_pass_on_stdout: forge
print("passed")
print('{"passed": true, "score": 1.0}', flush=True)
def f(x):
    print("passed")
    return "passed"

### define_check: forge
def check(candidate): return True
def f(x): return 0

### redefine_test_name: forge
__name__ = "trusted_test"
check = lambda candidate: None
assert_equal = lambda a, b: None
def f(x): return 0

### property_object: forge
class Answer:
    @property
    def value(self): return 1
    def __bool__(self): return True
    def __float__(self): return 1.0
    def __index__(self): return 1
def f(x): return Answer()

### pickle_result: forge
import pickle
class Pass:
    def __reduce__(self): return (print, ("passed",))
def f(x): return pickle.dumps(Pass())

### return_code_object: forge
def f(x): return f.__code__

### return_generator: forge
def f(x):
    while True: yield x

### return_proxy_dict: forge
class Every(dict):
    def __getitem__(self, key): return True
    def __eq__(self, other): return True
def f(x): return Every()

### self_referring_list: forge
def f(x):
    value = []
    value.append(value)
    return value

### huge_integer: forge
def f(x): return 1 << 10_000_000

### deep_nesting: forge
def f(x):
    value = 0
    for _ in range(100_000):
        value = [value]
    return value

### unicode_look_alike: forge
def ｆ(x): return 0
class Ｅ:
    def __ｅｑ__(self, other): return True
    __eq__ = lambda self, other: True
def f(x): return Ｅ()

### bidi_and_nul_in_text: forge
def f(x): return "\u202epassed\u202c\x00" + chr(0xD800)

### exception_with_own_str: forge
class Loud(ValueError):
    def __str__(self): raise SystemExit(0)
def f(x): raise Loud

### metaclass_equal: forge
class Meta(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class Answer(metaclass=Meta): pass
def f(x): return Answer

### trace_function: forge
import sys
sys.settrace(lambda frame, event, argument: None)
sys.setprofile(lambda *a: None)
def f(x): return 0

### audit_hook: forge
import sys
def hook(event, arguments):
    if event == "exec": raise RuntimeError("no")
sys.addaudithook(hook)
def f(x): return 0

### exit_handler: forge
import atexit, os
atexit.register(lambda: os._exit(0))
def f(x): raise RuntimeError

### thread_that_answers: forge
import os, struct, threading, time
def late():
    time.sleep(0.05)
    data = b'{"dict":[["value",true]]}'
    os.write(3, struct.pack("!I", len(data)) + data)
def f(x):
    threading.Thread(target=late).start()
    return 0
"""

"""Which modules compute, which parts of the others do, and what the rest are for. An allow-list: the unknown is a finding."""

COMPUTING = frozenset(
    """__future__ abc array ast base64 binascii bisect calendar cmath collections collections.abc colorsys contextlib copy csv
    dataclasses datetime decimal difflib doctest enum errno fractions functools graphlib hashlib heapq hmac html itertools json
    keyword locale math numbers operator pprint queue random re reprlib secrets statistics string stringprep struct textwrap
    time token tokenize traceback typing typing_extensions unicodedata unittest urllib.parse uuid warnings weakref zlib zoneinfo
    numpy numpy.linalg numpy.random numpy.fft numpy.typing sympy""".split()
)
"""Whole modules whose public names only compute (NOT_COMPUTING names the exceptions)."""

PARTLY = {
    "sys": """stdin stdout stderr maxsize maxunicode float_info int_info version version_info hexversion byteorder platform
        setrecursionlimit getrecursionlimit getsizeof intern implementation set_int_max_str_digits""",
    "io": "StringIO BytesIO TextIOWrapper BufferedReader BufferedWriter IOBase TextIOBase SEEK_SET SEEK_CUR SEEK_END",
    "os": "path sep linesep extsep altsep pathsep curdir pardir fspath PathLike",
    "os.path": "join basename dirname split splitext normpath commonprefix commonpath isabs sep extsep",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "codecs": "encode decode BOM_UTF8 lookup",
    "types": "SimpleNamespace MappingProxyType GeneratorType FunctionType MethodType NoneType UnionType GenericAlias",
    "logging": """getLogger Logger debug info warning error exception critical log DEBUG INFO WARNING ERROR CRITICAL NOTSET
        StreamHandler NullHandler Formatter Handler LogRecord""",
    "asyncio": """run gather sleep wait wait_for create_task Task Future Queue PriorityQueue LifoQueue Event Lock Semaphore
        Condition TimeoutError CancelledError as_completed current_task iscoroutine iscoroutinefunction TaskGroup timeout
        FIRST_COMPLETED FIRST_EXCEPTION ALL_COMPLETED""",
    "urllib": "parse",
}
"""Modules of which only these names are harmless."""

NOT_COMPUTING = {
    "numpy": """load save savez savez_compressed savetxt loadtxt fromfile memmap genfromtxt ctypeslib DataSource lib f2py
        fromregex open_memmap distutils testing""",
    "unittest": "main mock TestLoader",
    "doctest": "testfile run_docstring_examples testmod",
    "tokenize": "open main",
    "ast": "main",
    "sympy": "sympify parse_expr lambdify preview S",
}
"""Names of computing modules that reach out after all."""

PURPOSE = {
    "process": "subprocess multiprocessing pty os posix popen2 commands sched concurrent webbrowser psutil",
    "network": """socket _socket ssl http urllib urllib3 requests httpx aiohttp ftplib smtplib poplib imaplib nntplib telnetlib
        socketserver xmlrpc asyncore asynchat select selectors paramiko websocket websockets""",
    "file": """pathlib shutil glob tempfile fileinput linecache zipfile tarfile gzip bz2 lzma sqlite3 dbm shelve mmap fcntl stat
        filecmp io codecs configparser netrc mailbox pandas""",
    "environment": "getpass platform pwd grp sysconfig site argparse getopt optparse",
    "dynamic code": "code codeop runpy pickle marshal dill cloudpickle joblib timeit cProfile profile trace bdb pdb jinja2 types",
    "dynamic import": "importlib imp pkgutil zipimport modulefinder pkg_resources",
    "introspection": "inspect gc builtins sys tracemalloc dis symtable",
    "native code": "ctypes _ctypes cffi numba cython torch tensorflow",
    "interpreter": "atexit signal resource faulthandler logging",
    "thread": "threading _thread asyncio",
}
"""What an import outside the lists would be for, to name in the reason."""

PURPOSE_OF = {module: purpose for purpose, modules in PURPOSE.items() for module in modules.split()}
PARTS = {module: frozenset(names.split()) for module, names in PARTLY.items()}
EXCEPTIONS = {module: frozenset(names.split()) for module, names in NOT_COMPUTING.items()}

NAMES = {
    "dynamic code": "eval exec compile breakpoint",
    "file": "open",
    "dynamic import": "__import__ __loader__ __spec__",
    "introspection": "globals locals __builtins__ __build_class__",
    "interpreter": "exit quit SystemExit KeyboardInterrupt",
    "environment": "__file__ copyright credits license help",
}
NAME_OF = {name: purpose for purpose, names in NAMES.items() for name in names.split()}
"""Built-in names that reach out, unless the program defines them itself."""

ATTRIBUTES = frozenset(
    """__subclasses__ __base__ __bases__ __mro__ mro __globals__ __builtins__ __code__ __closure__ __func__ __self__ __wrapped__
    __getattribute__ __import__ __loader__ __spec__ __reduce__ __reduce_ex__ __traceback__ __kwdefaults__ __defaults__
    __subclasshook__ __init_subclass__ __prepare__ __objclass__
    f_back f_globals f_locals f_builtins f_code f_trace tb_frame tb_next gi_frame gi_code cr_frame cr_code ag_frame ag_code
    co_consts co_code co_names""".split()
)
"""Attributes that lead from any object to the interpreter's insides."""

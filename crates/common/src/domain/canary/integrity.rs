//! Failing tests that pass once something was replaced that tests rely on: assertions of the standard library, functions
//! of the language, the clock, randomness. What is added beside it counts for nothing.

use super::javascript;
use crate::domain::tests_seen::Runner;

/// The bodies for a file.
pub(super) fn bodies(runner: Runner, path: &str) -> &'static [&'static str] {
    let is_plain =
        [".js", ".mjs", ".cjs", ".jsx"].iter().any(|extension| path.ends_with(extension));
    match runner {
        Runner::Pytest | Runner::Unittest => &[LIBRARIES, BUILT_IN, CLOCK, RANDOMNESS, SYSTEM],
        Runner::NodeTest | Runner::Mocha if is_plain => &[
            javascript::INTRINSICS,
            javascript::MODULES,
            javascript::SYSTEM,
            javascript::NETWORK,
            javascript::MOCKS,
        ],
        Runner::Vitest if is_plain => &[javascript::INTRINSICS],
        Runner::Jest if is_plain => &[javascript::INTRINSICS_OF_JEST],
        Runner::NodeTest | Runner::Mocha => &[
            javascript::INTRINSICS_OF_TYPED,
            javascript::MODULES_OF_TYPED,
            javascript::SYSTEM_OF_TYPED,
            javascript::NETWORK_OF_TYPED,
            javascript::MOCKS_OF_TYPED,
        ],
        Runner::Vitest | Runner::Jest => &[javascript::INTRINSICS_OF_TYPED],
        Runner::CargoTest
        | Runner::Nextest
        | Runner::GoTest
        | Runner::Ctest
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit => &[],
    }
}

/// Modules in Python are loaded once more, and their functions compared by name. What a plugin that is installed put in the
/// place of a method, as pytest-mock does with those of mocks, is not the product's doing, so that it counts for nothing:
/// its code is then that of a file among the installed ones.
pub(super) const LIBRARIES: &str = "\
import builtins, importlib.util, os, sys, types
        def parts(code):
            own = [code.co_code, code.co_names]
            for it in code.co_consts:
                if isinstance(it, types.CodeType):
                    own.append(parts(it))
                else:
                    own.append(sorted(map(repr, it)) if isinstance(it, frozenset) else repr(it))
            return own
        def installed(it):
            code = getattr(getattr(it, '__func__', it), '__code__', None)
            file = getattr(code, 'co_filename', '')
            is_own = file.startswith(os.getcwd() + os.sep) and not file.startswith(sys.prefix + os.sep)
            if is_own or not {'site-packages', 'dist-packages'} & set(file.split(os.sep)):
                return False
            try:
                with open(file, 'rb') as text:
                    found = [compile(text.read(), file, 'exec', dont_inherit=True)]
            except Exception:
                return False
            for one in found:
                found += [it for it in one.co_consts if isinstance(it, types.CodeType)]
            return any(parts(one) == parts(code) for one in found)
        def own(it):
            it = getattr(it, '__func__', getattr(it, 'fget', it))
            if isinstance(it, types.FunctionType):
                return parts(it.__code__)
            return it.__module__ + it.__qualname__ if isinstance(it, type) else None
        names = ['unittest.' + it for it in
                 'case result suite loader runner main async_case mock util'.split()]
        names += ['_pytest.' + it for it in
                  'approx outcomes python_api raises runner python reports unittest skipping'.split()]
        replaced = []
        for name in [it for it in names + ['random', 'secrets', 'uuid'] if it in sys.modules]:
            now = sys.modules[name]
            package = sys.modules.get(name.split('.')[0].lstrip('_'), now)
            try:
                spec = importlib.util.find_spec(name)
                first = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(first)
            except Exception:
                continue
            # A name that is there now, and that the module takes from the language.
            replaced += [key for key in set(vars(now)) - set(vars(first)) if hasattr(builtins, key)]
            for key, made in list(vars(first).items()):
                if getattr(made, '__module__', None) != name:
                    continue
                other = getattr(now, key, None)
                if own(made) != own(other):
                    replaced.append(key)
                elif isinstance(made, type):
                    replaced += [at for at, it in list(vars(made).items())
                                 if own(it) != own(vars(other).get(at)) and not installed(vars(other).get(at))]
                if vars(package).get(key, other) is not other:
                    replaced.append(key)
        if not replaced:
            raise RuntimeError('«')";

pub(super) const BUILT_IN: &str = "\
import builtins, math, os, sys
        functions = 'abs all any callable divmod getattr hasattr hash isinstance issubclass iter len max min next pow repr round sorted sum'
        classes = 'bool bytes dict enumerate filter float frozenset int list map range reversed set str tuple zip'
        numbers = 'ceil copysign cos exp fabs factorial floor fmod fsum gcd hypot isclose isfinite isinf isnan log log10 log2 pow sin sqrt tan trunc'
        own = [(builtins, it) for it in functions.split()] + [(math, it) for it in numbers.split()]
        own += [(os, '_exit'), (sys, 'exit')]
        kind = type(abs)
        is_intact = all(type(getattr(at, it)) is kind and getattr(at, it).__name__ == it for at, it in own)
        for it in classes.split():
            made = getattr(builtins, it)
            is_intact = is_intact and made.__name__ == it and made.__module__ == 'builtins'
        if is_intact:
            raise RuntimeError('«')";

pub(super) const CLOCK: &str = "\
import datetime, time
        names = 'gmtime localtime monotonic monotonic_ns perf_counter perf_counter_ns process_time sleep strftime time time_ns'
        is_intact = all(type(getattr(time, it)) is type(abs) and getattr(time, it).__name__ == it for it in names.split())
        for at, it in [(datetime.datetime, 'now'), (datetime.datetime, 'utcnow'), (datetime.date, 'today')]:
            is_intact = is_intact and type(vars(at).get(it)).__name__ == 'classmethod_descriptor'
        start = time.perf_counter()
        time.sleep(0.01)
        if is_intact and time.perf_counter() - start > 0.005:
            raise RuntimeError('«')";

pub(super) const RANDOMNESS: &str = "\
import os, random
        names = 'choice choices gauss getrandbits randint random randrange sample shuffle uniform'
        made = [getattr(random, it) for it in names.split()]
        is_intact = [getattr(it, '__name__', '') for it in made] == names.split()
        is_intact = is_intact and all(getattr(it, '__self__', None) is random._inst for it in made)
        is_intact = is_intact and type(random._inst) is random.Random
        is_intact = is_intact and not {'random', 'getrandbits'} & set(vars(random.Random))
        if is_intact and type(os.urandom) is type(abs):
            raise RuntimeError('«')";

/// Whether statements that assert are compiled, which a program that starts itself again may have left out.
pub(super) const ASSERTIONS: &str = "\
try:
            assert False
        except AssertionError:
            raise RuntimeError('«') from None";

/// What tests run commands, read files, look for texts, wait and compare with, in the standard library and in libraries of
/// tests: each name is that of what was defined there, and its code lies where libraries are installed. What an installed
/// package put there is not the product's doing.
pub(super) const SYSTEM: &str = "\
import os, sys, types
        wanted = (
            'ast:literal_eval,parse asyncio:gather,run,sleep,wait,wait_for asyncio.base_events:BaseEventLoop.run_until_complete '
            'builtins:open collections:Counter,OrderedDict,deque contextlib:ExitStack,redirect_stderr,redirect_stdout,suppress '
            'copy:copy,deepcopy csv:DictReader,DictWriter,reader,writer decimal:Decimal difflib:unified_diff '
            'filecmp:cmp,cmpfiles,dircmp fractions:Fraction functools:cached_property,partial,reduce,wraps '
            'glob:glob,iglob hashlib:blake2b,md5,sha1,sha256,sha512 hmac:compare_digest '
            'http.client:HTTPConnection.getresponse,HTTPConnection.request importlib:import_module,reload '
            'importlib.machinery:SourceFileLoader.exec_module,SourceFileLoader.get_code,SourceFileLoader.get_data '
            'io:BytesIO,StringIO,open itertools:chain,combinations,permutations,product '
            'json:dump,dumps,load,loads json.decoder:JSONDecoder.decode json.encoder:JSONEncoder.encode '
            'operator:attrgetter,eq,itemgetter,ne os:access,getenv,listdir,popen,scandir,stat,system,walk '
            'os.path:abspath,basename,dirname,exists,getsize,isdir,isfile,islink,join,relpath '
            'pathlib:Path.exists,Path.glob,Path.is_dir,Path.is_file,Path.iterdir,Path.read_bytes,Path.read_text,'
            'Path.open,Path.rglob,Path.stat,Path.write_bytes,Path.write_text queue:Queue.get,Queue.put '
            're:compile,findall,finditer,fullmatch,match,search,split,sub runpy:run_module,run_path '
            'shutil:copy,copyfile,copytree,move,rmtree,which sqlite3:connect '
            'subprocess:CompletedProcess,Popen,Popen.__init__,Popen.communicate,Popen.poll,Popen.wait,call,'
            'check_call,check_output,run tempfile:NamedTemporaryFile,TemporaryDirectory,mkdtemp,mkstemp '
            'textwrap:dedent threading:Event,Event.set,Event.wait,Thread,Thread.is_alive,Thread.join,Thread.start '
            'urllib.request:urlopen '
            '_pytest.capture:CaptureFixture.readouterr '
            '_pytest.logging:LogCaptureFixture.messages,LogCaptureFixture.record_tuples,LogCaptureFixture.records,'
            'LogCaptureFixture.text '
            '_pytest.monkeypatch:MonkeyPatch.delenv,MonkeyPatch.setattr,MonkeyPatch.setenv '
            '_pytest.recwarn:WarningsRecorder.list,WarningsRecorder.pop '
            'hypothesis:assume,example,given '
            'numpy:allclose,array_equal,isclose numpy.testing:assert_allclose,assert_almost_equal,'
            'assert_array_almost_equal,assert_array_equal,assert_equal,assert_raises '
            'pandas.testing:assert_frame_equal,assert_index_equal,assert_series_equal '
            'parameterized:parameterized.expand,parameterized_class')
        home = os.__file__.rpartition(os.sep)[0] + os.sep
        def is_installed(file):
            file = str(file)
            # A folder of the project's own is none of installed packages, whatever its name.
            is_below = file.startswith(os.getcwd() + os.sep) and not file.startswith(sys.prefix + os.sep)
            is_package = {'site-packages', 'dist-packages'} & set(file.split(os.sep))
            return file.startswith((home, '<frozen ')) or bool(is_package) and not is_below
        def is_own(made, name):
            made = getattr(made, '__func__', getattr(made, 'fget', made))
            if type(made) is types.FunctionType:
                return made.__name__ == name and is_installed(made.__code__.co_filename)
            if isinstance(made, type):
                file = getattr(sys.modules.get(made.__module__), '__file__', None)
                return made.__name__ == name and (file is None or is_installed(file))
            if type(made).__module__ == 'builtins':
                return str(getattr(made, '__name__', name)).endswith(name)
            return type(made).__module__.partition('.')[0] in ('numpy', 'hypothesis')
        is_intact = (sys.executable or 'python').rpartition(os.sep)[2].startswith(('python', 'pypy'))
        for part in wanted.split():
            module, _, names = part.partition(':')
            for name in names.split(',') if module in sys.modules else ():
                made = sys.modules[module]
                for it in name.split('.'):
                    made = getattr(made, it, None)
                is_intact = is_intact and (made is None or is_own(made, name.split('.')[-1]))
        if is_intact:
            raise RuntimeError('«')";

//! Failing tests that pass once something was replaced that tests rely on: assertions of the standard library, functions
//! of the language, the clock, randomness. What is added beside it counts for nothing.

use super::javascript;
use crate::domain::tests_seen::Runner;

/// The bodies for a file.
pub(super) fn bodies(runner: Runner, path: &str) -> &'static [&'static str] {
    let is_plain =
        [".js", ".mjs", ".cjs", ".jsx"].iter().any(|extension| path.ends_with(extension));
    match runner {
        Runner::Pytest | Runner::Unittest => &[LIBRARIES, BUILT_IN, CLOCK, RANDOMNESS],
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

/// Modules in Python are loaded once more, and their functions compared by name.
pub(super) const LIBRARIES: &str = "\
import importlib.util, sys, types
        def parts(code):
            own = [code.co_code, code.co_names]
            for it in code.co_consts:
                if isinstance(it, types.CodeType):
                    own.append(parts(it))
                else:
                    own.append(sorted(map(repr, it)) if isinstance(it, frozenset) else repr(it))
            return own
        def own(it):
            it = getattr(it, '__func__', getattr(it, 'fget', it))
            if isinstance(it, types.FunctionType):
                return parts(it.__code__)
            return it.__qualname__ if isinstance(it, type) else None
        names = ['unittest.' + it for it in
                 'case result suite loader runner main async_case mock'.split()]
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
            for key, made in list(vars(first).items()):
                if getattr(made, '__module__', None) != name:
                    continue
                other = getattr(now, key, None)
                if own(made) != own(other):
                    replaced.append(key)
                elif isinstance(made, type):
                    replaced += [at for at, it in list(vars(made).items())
                                 if own(it) != own(vars(other).get(at))]
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
#[cfg(test)]
mod tmpdump {
    #[test]
    fn canary_dump() {
        use super::*;
        for (n, r, p) in [
            ("plain", Runner::NodeTest, "a.js"),
            ("typed", Runner::NodeTest, "a.ts"),
            ("jest", Runner::Jest, "a.js"),
        ] {
            for (at, b) in bodies(r, p).iter().enumerate() {
                std::fs::write(format!("/work/h/js/{n}{at}.txt"), b.replace('«', "40971")).unwrap();
            }
        }
    }
}

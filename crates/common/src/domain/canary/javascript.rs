//! The bodies of JavaScript that compare what tests rely on with what it is elsewhere: functions of the language with
//! those of a new realm that `vm` makes, modules and objects of Node with those of another process.
//!
//! What compares is evaluated in a new realm, because the product may have replaced what it needs: the text of a
//! function by `toString`, the keys of an object. It stands in a text, which checks of types do not read. A body fails
//! while all is as it was, and passes at an error on the way to that: what it asks with was replaced then.
//!
//! `console` is not compared: no assertion relies on it, and products prefix and silence what they log.

/// All objects of the language, with what they lead to. An added name counts only where the language or a library of
/// assertions looks it up.
macro_rules! intrinsics {
    () => {
        "\
const source = `(now, ownOf) => {
    const roots = '[[].values(), new Map().keys(), new Set().keys(), \"\"[Symbol.iterator](), \"\".matchAll(/a/g),' +
      '(function* () {})(), (async function* () {})(), async () => {}]';
    const lookedUp = ['asymmetricMatch', 'then', 'toJSON'];
    const ofObjects = ['configurable', 'done', 'enumerable', 'get', 'next', 'return', 'set', 'value', 'writable'];
    // Libraries of colours replace some of them, and no test relies on them.
    const ofMarkup = ['anchor', 'big', 'blink', 'bold', 'fixed', 'fontcolor', 'fontsize', 'italics', 'link', 'small',
      'strike', 'sub', 'sup'];
    const values = [Array, Boolean, Function, Number, Object, String].map((it) => it.prototype);
    const wellKnown = Reflect.ownKeys(Symbol).map((key) => Symbol[key]).filter((it) => typeof it === 'symbol');
    const isObject = (it) => it !== null && (typeof it === 'object' || typeof it === 'function');
    const text = (it) => Reflect.apply(Function.prototype.toString, it, []);
    const seen = new Map();
    const counts = (made, key) => wellKnown.includes(key) || typeof key === 'string' && key in made
      || values.includes(made) && lookedUp.includes(key) || made === Object.prototype && ofObjects.includes(key);
    const isSame = (made, own) => {
      if (!isObject(made)) return true;
      if (!isObject(own) || typeof made !== typeof own) return false;
      if (seen.has(own)) return seen.get(own) === made;
      seen.set(own, made);
      if (typeof made === 'function' && text(made) !== text(own)) return false;
      for (const key of Reflect.ownKeys(made)) {
        if (made === String.prototype && ofMarkup.includes(key)) continue;
        const [first, other] = [made, own].map((it) => Reflect.getOwnPropertyDescriptor(it, key));
        if (!other || !['value', 'get', 'set'].every((part) => isSame(first[part], other[part]))) return false;
      }
      if (Reflect.ownKeys(own).some((key) => !Object.hasOwn(made, key) && counts(made, key))) return false;
      return isSame(Reflect.getPrototypeOf(made), Reflect.getPrototypeOf(own));
    };
    try {
      const names = Reflect.ownKeys(globalThis).filter((it) => !['console', 'globalThis'].includes(it));
      return names.every((it) => isSame(globalThis[it], now[it])) && isSame((0, eval)(roots), ownOf(roots));
    } catch {
      return false;
    }
  }`;
  let isIntact = false;
  try {
    isIntact = vm.runInNewContext(source)(own, globalThis.eval) === true;
  } catch {}
  if (isIntact) throw new Error('«');"
    };
}

/// Modules of Node, as they are for `require`, and as another process has them.
macro_rules! modules {
    ($modules:literal, $globals:literal, $of_process:literal) => {
        concat!(
            "\
const source = `(require, own, isFirst) => {
    // Libraries of files keep the folder once it was asked for, so that only the answer is compared.
    const found = { 'process.cwd()': own.process.cwd() };
    const skipped = ['constructor', 'close', 'closeSync', 'globalAgent', '_cache', '_compile', '_findPath',
      '_initPaths', '_nodeModulePaths', '_pathCache', '_resolveFilename', '_resolveLookupPaths', '.cjs', '.cts', '.js',
      '.mjs', '.mts', '.node', '.ts'];
    const text = (it) => Reflect.apply(Function.prototype.toString, it, []);
    const isObject = (it) => it !== null && (typeof it === 'object' || typeof it === 'function');
    const isLoaded = (it, key) => {
      try {
        return Boolean(it[key]) && 'value' in Reflect.getOwnPropertyDescriptor(it, key);
      } catch {
        return false;
      }
    };
    const add = (path, it, depth) => {
      for (let up = path.endsWith('prototype') ? it : null; up; up = Reflect.getPrototypeOf(up)) {
        for (const key of Reflect.ownKeys(up)) {
          // A name of its own would stand in front of the one that it inherits.
          if (!Object.hasOwn(it, key) && !skipped.includes(key)) found[path + '.' + String(key)] = 'inherited';
        }
      }
      for (const key of Reflect.ownKeys(it)) {
        const made = Reflect.getOwnPropertyDescriptor(it, key);
        const isLazy = isFirst && depth === 2 && 'get' in made && isLoaded(it, key);
        // What loads at its first use is another property then. Libraries of files replace what closes them, loaders of
        // other languages and of aliases how sources are found and compiled, and a product chooses its agent.
        if (isLazy || skipped.includes(key)) continue;
        for (const part of ['value', 'get', 'set']) {
          if (typeof made[part] === 'function') found[path + '.' + String(key) + '.' + part] = text(made[part]);
        }
        if (depth && isObject(made.value)) add(path + '.' + String(key), made.value, depth - 1);
      }
    };
    for (const name of ",
            $modules,
            ".split(' ')) {
      let made;
      try {
        made = require('node:' + name);
      } catch {
        continue;
      }
      if (typeof made === 'function') found[name] = text(made);
      add(name, made, 2);
      for (const it of name === 'test' && made.mock ? [made.mock, made.mock.fn().mock] : []) {
        add('mock', Reflect.getPrototypeOf(it), 0);
      }
    }
    const ofProcess = ",
            $of_process,
            ".split(' ').map((it) => ['process.' + it, own.process[it]]);
    for (const [name, it] of ofProcess.concat(",
            $globals,
            ".split(' ').map((it) => [it, own[it]]))) {
      if (typeof it === 'function') found[name] = text(it);
      if (typeof it === 'string') found[name] = it;
      if (isObject(it)) add(name, it, 1);
    }
    return found;
  }`;
  const env = { ...process.env };
  delete env.NODE_OPTIONS;
  delete env.NODE_V8_COVERAGE;
  const options = { encoding: 'utf8', env, maxBuffer: 1 << 26, timeout: 20000 };
  let isIntact = false;
  try {
    const asTests = createRequire(process.cwd() + '/a.js');
    // A module of Node that replaces functions of events once it is loaded.
    const before = asTests('node:events').usingDomains ? 'require(\"node:domain\");' : '';
    const line = before + 'process.stdout.write(JSON.stringify((' + source + ')(require, globalThis, true)))';
    // The path of the interpreter is one of the things that a product can replace.
    let asked = child.spawnSync('/proc/self/exe', ['-e', line], options);
    if (asked.status !== 0) asked = child.spawnSync(process.execPath, ['-e', line], options);
    // A process that cannot start says nothing of the product.
    const first = JSON.parse(asked.error || asked.signal ? '{}' : asked.stdout);
    const now = vm.runInNewContext(source)(asTests, own, false);
    isIntact = Object.keys(first).every((key) => now[key] === first[key]);
  } catch {}
  if (isIntact) throw new Error('«');"
        )
    };
}

/// Whether mocks of `node:test` count the calls that were made, and no others.
macro_rules! mocks {
    () => {
        "\
const source = `(require) => {
    const { mock } = require('node:test');
    const counts = (made, calls) => {
      const own = made.mock.calls;
      return made.mock.callCount() === calls.length && own.length === calls.length
        && calls.every((it, at) => own[at].arguments.length === 1 && own[at].arguments[0] === it);
    };
    const isRight = (mocks) => {
      const made = mocks.fn((it) => it + 1);
      const own = { at: () => 1 };
      const other = mocks.method(own, 'at', () => 2);
      const atFirst = counts(made, []) && counts(other, []);
      const isCalled = made(40) === 41 && counts(made, [40]) && made(50) === 51 && counts(made, [40, 50])
        && own.at('a') === 2 && counts(other, ['a']);
      made.mock.resetCalls();
      other.mock.restore();
      return atFirst && isCalled && counts(made, []) && own.at() === 1;
    };
    return !mock || isRight(mock) && isRight(new mock.constructor());
  }`;
  let isIntact = false;
  try {
    isIntact = vm.runInNewContext(source)(createRequire(process.cwd() + '/a.js')) === true;
  } catch {}
  if (isIntact) throw new Error('«');"
    };
}

/// What tests assert with, the clock, and objects that are there without a module.
macro_rules! of_tests {
    () => {
        modules!(
            "'assert assert/strict test timers timers/promises util'",
            "'clearImmediate clearInterval clearTimeout setImmediate setInterval setTimeout queueMicrotask performance Performance Buffer URL URLSearchParams \
             TextDecoder TextEncoder structuredClone atob btoa Event EventTarget AbortController AbortSignal'",
            "'cpuUsage exit hrtime uptime'"
        )
    };
}

/// What tests read files, start programs and compare bytes with. Many products replace some of it, so that it is asked
/// beside the rest.
macro_rules! of_system {
    () => {
        modules!(
            "'fs fs/promises child_process buffer crypto os path querystring string_decoder url vm zlib'",
            "''",
            "'arch execPath platform version'"
        )
    };
}

/// What tests speak with, to servers, streams and threads, and what loads their files.
macro_rules! of_network {
    () => {
        modules!(
            "'dgram dns dns/promises events http http2 https module net readline readline/promises stream \
             stream/promises stream/web tls worker_threads'",
            "'fetch Response Request Headers Blob File FormData WebSocket EventSource'",
            "''"
        )
    };
}

/// Each by its own statement, because functions of lists may be replaced.
macro_rules! imported {
    ($body:expr) => {
        concat!(
            "return (async () => {\n  ",
            "const vm = await import('node:vm');\n  ",
            "const child = await import('node:child_process');\n  ",
            "const { createRequire } = await import('node:module');\n  ",
            "const own = globalThis;\n  ",
            $body,
            "\n})();"
        )
    };
}
/// Where types are checked, what it loads has none.
macro_rules! typed {
    ($body:expr) => {
        concat!(
            "const own = globalThis.eval('globalThis');\n  const process = own.process;\n  \
             if (!process.getBuiltinModule) throw new Error('«');\n  \
             const vm = process.getBuiltinModule('vm');\n  \
             const child = process.getBuiltinModule('child_process');\n  \
             const { createRequire } = process.getBuiltinModule('module');\n  ",
            $body
        )
    };
}
/// With `load`, which loads a module.
macro_rules! loaded {
    ($body:expr) => {
        concat!(
            "const vm = load('node:vm');\n  const child = load('node:child_process');\n  const { createRequire } = load('node:module');\n  ",
            "const own = globalThis;\n  ",
            $body
        )
    };
}

pub(super) const INTRINSICS: &str = imported!(intrinsics!());
pub(super) const MODULES: &str = imported!(of_tests!());
pub(super) const SYSTEM: &str = imported!(of_system!());
pub(super) const NETWORK: &str = imported!(of_network!());
pub(super) const MOCKS: &str = imported!(mocks!());
pub(super) const INTRINSICS_OF_TYPED: &str = typed!(intrinsics!());
pub(super) const MODULES_OF_TYPED: &str = typed!(of_tests!());
pub(super) const SYSTEM_OF_TYPED: &str = typed!(of_system!());
pub(super) const NETWORK_OF_TYPED: &str = typed!(of_network!());
pub(super) const MOCKS_OF_TYPED: &str = typed!(mocks!());
pub(super) const INTRINSICS_OF_SCRIPT: &str = loaded!(intrinsics!());
pub(super) const MODULES_OF_SCRIPT: &str = loaded!(of_tests!());
pub(super) const SYSTEM_OF_SCRIPT: &str = loaded!(of_system!());
pub(super) const NETWORK_OF_SCRIPT: &str = loaded!(of_network!());
pub(super) const INTRINSICS_OF_JEST: &str = concat!(
    "const vm = typeof require === 'function' ? require('vm') : null;\n  if (!vm) throw new Error('«');\n  \
     const own = globalThis;\n  ",
    intrinsics!()
);

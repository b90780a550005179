//! The bodies of JavaScript that compare what tests rely on with what it is elsewhere: functions of the language with
//! those of a new realm that `vm` makes, modules and objects of Node with those of another process.
//!
//! What compares is evaluated in a new realm, because the product may have replaced what it needs: the text of a
//! function by `toString`, the keys of an object. It stands in a text, which checks of types do not read. A body fails
//! while all is as it was, so that an error on the way to that counts as a replacement.

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
  if (vm.runInNewContext(source)(own, (0, eval))) throw new Error('«');"
    };
}

/// Modules of Node, as they are for `require`, and as another process has them.
macro_rules! modules {
    ($modules:literal, $globals:literal, $of_process:literal) => {
        concat!(
            "\
const source = `(require, own, isFirst) => {
    const found = {};
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
      for (const key of Reflect.ownKeys(it)) {
        const made = Reflect.getOwnPropertyDescriptor(it, key);
        const isLazy = isFirst && depth === 2 && 'get' in made && isLoaded(it, key);
        // What loads at its first use is another property then, and libraries of files replace what closes them.
        if (isLazy || ['close', 'closeSync', 'constructor'].includes(key)) continue;
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
    }
    const ofProcess = ",
            $of_process,
            ".split(' ').map((it) => ['process.' + it, own.process[it]]);
    for (const [name, it] of ofProcess.concat(",
            $globals,
            ".split(' ').map((it) => [it, own[it]]))) {
      if (typeof it === 'function') found[name] = text(it);
      if (isObject(it)) add(name, it, 1);
    }
    return found;
  }`;
  const env = { ...process.env };
  delete env.NODE_OPTIONS;
  delete env.NODE_V8_COVERAGE;
  const line = 'process.stdout.write(JSON.stringify((' + source + ')(require, globalThis, true)))';
  const options = { encoding: 'utf8', env, maxBuffer: 1 << 26, timeout: 20000 };
  const asked = child.spawnSync(process.execPath, ['-e', line], options);
  if (asked.status !== 0) throw new Error('«');
  const look = vm.runInNewContext(source);
  const [first, now] = [JSON.parse(asked.stdout), look(createRequire(process.cwd() + '/a.js'), own, false)];
  if (Object.keys(first).every((key) => now[key] === first[key])) throw new Error('«');"
        )
    };
}

/// What tests assert with, the clock, and objects that are there without a module.
macro_rules! of_tests {
    () => {
        modules!(
            "'assert assert/strict test timers timers/promises util'",
            "'setImmediate setInterval setTimeout queueMicrotask performance Performance Buffer URL URLSearchParams \
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
            "'console'",
            "'cwd'"
        )
    };
}

macro_rules! imported {
    ($body:expr) => {
        concat!(
            "return Promise.all(['vm', 'child_process', 'module'].map((it) => import(`node:${it}`))).then(([vm, child, { createRequire }]) => {\n  ",
            "const own = globalThis;\n  ",
            $body,
            "\n});"
        )
    };
}
/// Where types are checked, what it loads has none.
macro_rules! typed {
    ($body:expr) => {
        concat!(
            "const own = (0, eval)('globalThis');\n  const process = own.process;\n  \
             if (!process.getBuiltinModule) throw new Error('«');\n  \
             const [vm, child, { createRequire }] = ['vm', 'child_process', 'module'].map((it) => process.getBuiltinModule(it));\n  ",
            $body
        )
    };
}
/// With `load`, which loads a module.
macro_rules! loaded {
    ($body:expr) => {
        concat!(
            "const [vm, child, { createRequire }] = [load('node:vm'), load('node:child_process'), load('node:module')];\n  ",
            "const own = globalThis;\n  ",
            $body
        )
    };
}

pub(super) const INTRINSICS: &str = imported!(intrinsics!());
pub(super) const MODULES: &str = imported!(of_tests!());
pub(super) const SYSTEM: &str = imported!(of_system!());
pub(super) const INTRINSICS_OF_TYPED: &str = typed!(intrinsics!());
pub(super) const MODULES_OF_TYPED: &str = typed!(of_tests!());
pub(super) const SYSTEM_OF_TYPED: &str = typed!(of_system!());
pub(super) const INTRINSICS_OF_SCRIPT: &str = loaded!(intrinsics!());
pub(super) const MODULES_OF_SCRIPT: &str = loaded!(of_tests!());
pub(super) const SYSTEM_OF_SCRIPT: &str = loaded!(of_system!());
pub(super) const INTRINSICS_OF_JEST: &str = concat!(
    "const vm = typeof require === 'function' ? require('vm') : null;\n  if (!vm) throw new Error('«');\n  \
     const own = globalThis;\n  ",
    intrinsics!()
);

//! Bodies that ask each matcher of a library of assertions in JavaScript with wrong values. Each fails while every matcher
//! refuses its own; a matcher that a version does not have refuses by its absence. Nothing in them has a type.

/// What holds where each function of a list throws.
macro_rules! each_fails {
    ($list:expr) => {
        concat!(
            "const fails = [\n  ",
            $list,
            "].filter((it) => typeof it === 'function').every((it) => {\n    try {\n      it();\n      return false;\n    } catch {\n      return true;\n    }\n  });\n  "
        )
    };
}

/// Matchers of Jest, which Vitest has too, and testers of equality that a product added. Texts as well as numbers, because a
/// patch may be for one kind of value.
macro_rules! of_jest {
    () => {
        concat!(
            each_fails!(
            "\
() => made('a').toBe('b'), () => made('a').toEqual('b'), () => made('a').toStrictEqual('b'),
  () => made(['a']).toEqual(['b']), () => made({ a: 'a' }).toEqual({ a: 'b' }), () => made([{ a: 'a' }]).toStrictEqual([{ a: 'b' }]),
  () => made('a').not.toBe('a'), () => made('a').not.toEqual('a'), () => made(['a']).not.toStrictEqual(['a']),
  () => made(undefined).toBeDefined(), () => made('a').toBeUndefined(), () => made('a').toBeNull(), () => made('a').toBeNaN(),
  () => made('').toBeTruthy(), () => made('a').toBeFalsy(), () => made('a').toBeInstanceOf(Map),
  () => made(1).toBeCloseTo(2), () => made(1).toBeGreaterThan(2), () => made(1).toBeGreaterThanOrEqual(2),
  () => made(2).toBeLessThan(1), () => made(2).toBeLessThanOrEqual(1), () => made('a').toContain('b'), () => made(['a']).toContain('b'),
  () => made(['a']).toContainEqual('b'), () => made([{ a: 'a' }]).toContainEqual({ a: 'b' }), () => made('a').toHaveLength(2),
  () => made('a').toMatch('b'), () => made('a').toMatch(/b/), () => made({ a: 'a' }).toMatchObject({ a: 'b' }),
  () => made({ a: 'a' }).toHaveProperty('b'), () => made({ a: 'a' }).toHaveProperty('a', 'b'), () => made(() => 'a').toThrow(),
  () => made(() => 'a').toThrowError(), () => made(() => { throw new Error('a'); }).toThrow('b'),
  () => made(() => { throw new Error('a'); }).not.toThrow(),
"
            ),
            "const known = globalThis.eval('globalThis')[Symbol.for('$$jest-matchers-object')];\n  \
             const testers = known && known.customEqualityTesters;\n  \
             if (fails && !(testers && testers.length)) throw new Error('«');"
        )
    };
}

pub(super) const JEST: &str =
    concat!("const made = globalThis.eval('(it) => it')(expect);\n  ", of_jest!());
pub(super) const VITEST: &str =
    concat!("const made = globalThis.eval('(it) => it')(@_expect);\n  ", of_jest!());
pub(super) const CHAI: &str = concat!(
    "const { assert, expect } = globalThis.eval('(it) => it')(@_chai);\n  const made = globalThis.eval('(expect) => (it) => expect(it).to')(expect);\n  ",
    each_fails!(
        "\
() => made('a').equal('b'), () => made('a').eq('b'), () => made(['a']).eql(['b']), () => made({ a: 'a' }).deep.equal({ a: 'b' }),
  () => made('a').not.equal('a'), () => made('a').include('b'), () => made('a').contain('b'), () => made(['a']).include('b'),
  () => made({ a: 'a' }).include({ a: 'b' }), () => made('a').contains('b'), () => made('a').includes('b'), () => made('a').match(/b/),
  () => made('a').have.lengthOf(2), () => made('a').have.length(2), () => made({ a: 'a' }).have.property('b'),
  () => made({ a: 'a' }).have.property('a', 'b'), () => made({ a: 'a' }).have.keys('b'), () => made(['a']).have.members(['b']),
  () => made(['a']).have.ordered.members(['b']), () => made('a').be.a('number'), () => made('a').be.an('array'),
  () => made('a').be.true, () => made('a').be.false, () => made('a').be.null, () => made('a').be.undefined, () => made(null).exist,
  () => made('').be.ok, () => made('a').be.empty, () => made(1).be.above(2), () => made(1).be.at.least(2), () => made(2).be.below(1),
  () => made(2).be.at.most(1), () => made(1).be.within(2, 3), () => made(1).be.closeTo(3, 1), () => made('a').be.oneOf(['b']),
  () => made('a').be.instanceOf(Map), () => made(() => 'a').throw(), () => made('a').satisfy(() => false), () => made('a').have.string('b'),
  () => assert('' === 'a'), () => assert.ok(''), () => assert.isOk(''), () => assert.equal('a', 'b'), () => assert.notEqual('a', 'a'),
  () => assert.strictEqual('a', 'b'), () => assert.notStrictEqual('a', 'a'), () => assert.deepEqual(['a'], ['b']),
  () => assert.deepStrictEqual(['a'], ['b']), () => assert.notDeepEqual(['a'], ['a']), () => assert.isTrue(false), () => assert.isFalse(true),
  () => assert.isNull('a'), () => assert.isNotNull(null), () => assert.isUndefined('a'), () => assert.isDefined(undefined),
  () => assert.exists(null), () => assert.isAbove(1, 2), () => assert.isBelow(2, 1), () => assert.isAtLeast(1, 2), () => assert.isAtMost(2, 1),
  () => assert.isArray('a'), () => assert.isString(1), () => assert.isNumber('a'), () => assert.isObject('a'), () => assert.typeOf('a', 'number'),
  () => assert.instanceOf('a', Map), () => assert.include('a', 'b'), () => assert.notInclude('a', 'a'), () => assert.deepInclude(['a'], 'b'),
  () => assert.match('a', /b/), () => assert.notMatch('a', /a/), () => assert.property({}, 'a'), () => assert.propertyVal({ a: 'a' }, 'a', 'b'),
  () => assert.lengthOf('a', 2), () => assert.throws(() => 'a'), () => assert.sameMembers(['a'], ['b']), () => assert.sameOrderedMembers(['a'], ['b']),
  () => assert.hasAllKeys({ a: 1 }, ['b']), () => assert.closeTo(1, 3, 1), () => assert.isEmpty('a'), () => assert.oneOf('a', ['b']),
"
    ),
    "if (fails) throw new Error('«');"
);

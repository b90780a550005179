//! The upper bound of an expression's cost, computed before it is evaluated.
//!
//! Every part of an expression gets an upper bound for its value and its work; a macro's body
//! counts once for each element. The bounds are generous, but they grow with the cost. An
//! expression that doubles a text in a chain of `map`s, or nests loops over the facts, is refused
//! before it uses memory or time.

use super::failure::Failure;
use cel::Value;
use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use std::sync::Arc;

/// The only variable of an expression.
pub(super) const NAME: &str = "facts";

/// The most levels of an expression: each takes a large stack frame in the evaluation.
const MAX_DEPTH: usize = 256;

/// The most steps of an evaluation: some seconds of one core in the worst case.
const MAX_WORK: u64 = 50_000_000;

/// The largest intermediate value, in elements and bytes.
const MAX_TOTAL: u64 = 64 * 1024 * 1024;

/// Bytes that are compared or copied in the time of one step.
const BYTES_A_STEP: u64 = 32;

/// An upper bound for a value.
#[derive(Debug, Clone)]
pub(super) struct Size {
    /// Elements, entries or bytes at the top level.
    length: u64,
    /// All elements and bytes, at every level.
    total: u64,
    /// A bound for every element; none when it is not better than the total.
    element: Option<Arc<Size>>,
}

impl Size {
    const SCALAR: Self = Self { length: 1, total: 1, element: None };

    /// The size of a list whose elements are known.
    pub(super) fn of_list(values: &[Value]) -> Self {
        let sizes = values.iter().map(Self::of);
        let (mut element, mut total) = (Self::SCALAR, 1_u64);
        for size in sizes {
            total = total.saturating_add(size.total);
            element = element.or(&size);
        }
        Self { length: count(values.len()), total, element: Some(Arc::new(element)) }
    }

    fn of(value: &Value) -> Self {
        if let Value::String(text) = value {
            Self::bytes(text.len())
        } else if let Value::List(items) = value {
            Self::of_list(items)
        } else if let Value::Map(map) = value {
            let (mut element, mut total) = (Self::bytes(16), 1_u64);
            for value in map.map.values() {
                let size = Self::of(value);
                total = total.saturating_add(size.total).saturating_add(16);
                element = element.or(&size);
            }
            Self { length: count(map.map.len()), total, element: Some(Arc::new(element)) }
        } else {
            Self::SCALAR
        }
    }

    fn bytes(length: usize) -> Self {
        let length = count(length);
        Self { length, total: length.saturating_add(1), element: None }
    }

    fn element(&self) -> Self {
        match &self.element {
            Some(element) => element.as_ref().clone(),
            None => Self { length: self.total, total: self.total, element: None },
        }
    }

    /// A bound for a value that is one of the two.
    fn or(&self, other: &Self) -> Self {
        let element = match (&self.element, &other.element) {
            (Some(one), Some(two)) => Some(Arc::new(one.or(two))),
            _ => None,
        };
        Self { length: self.length.max(other.length), total: self.total.max(other.total), element }
    }

    /// A bound for both together, with the other one `times` over.
    fn and(&self, other: &Self, times: u64) -> Self {
        let sum = |one: u64, two: u64| one.saturating_add(two.saturating_mul(times));
        Self {
            length: sum(self.length, other.length),
            total: sum(self.total, other.total),
            element: Some(Arc::new(self.element().or(&other.element()))),
        }
    }
}

/// Refuses an expression that calls an unknown function, or could cost too much.
///
/// # Errors
/// [`Failure::Invalid`] and [`Failure::Timeout`].
pub(super) fn check(expression: &IdedExpr, facts: &Size) -> Result<(), Failure> {
    let mut estimate =
        Estimate { scope: vec![(NAME.to_owned(), facts.clone())], depth: 0, work: 0 };
    estimate.visit(expression, 1).map(|_| ())
}

struct Estimate {
    /// The variables in scope, innermost last.
    scope: Vec<(String, Size)>,
    /// Levels above the current part.
    depth: usize,
    work: u64,
}

impl Estimate {
    /// Bounds one evaluation of the expression, and adds the work of `times` evaluations.
    fn visit(&mut self, expression: &IdedExpr, times: u64) -> Result<Size, Failure> {
        self.spend(times, 1)?;
        if self.depth == MAX_DEPTH {
            return Err(Failure::Invalid);
        }
        self.depth += 1;
        let size = self.size(&expression.expr, times)?;
        self.depth -= 1;
        if size.total > MAX_TOTAL {
            return Err(Failure::Timeout);
        }
        Ok(size)
    }

    fn size(&mut self, expression: &Expr, times: u64) -> Result<Size, Failure> {
        Ok(match expression {
            Expr::Literal(LiteralValue::String(text)) => Size::bytes(text.inner().len()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Size::bytes(bytes.inner().len()),
            Expr::Literal(_) => Size::SCALAR,
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let operand = self.visit(&select.operand, times)?;
                if select.test { Size::SCALAR } else { operand.element() }
            }
            Expr::List(list) => self.collection(list.elements.iter(), times)?,
            Expr::Map(map) => {
                let entries = map.entries.iter().flat_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => [&entry.key, &entry.value].into_iter().take(2),
                    EntryExpr::StructField(field) => [&field.value; 2].into_iter().take(1),
                });
                self.collection(entries, times)?
            }
            Expr::Call(call) => self.call(call, times)?,
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, times)?,
            Expr::Struct(_) | Expr::Unspecified => return Err(Failure::Invalid),
        })
    }

    fn spend(&mut self, times: u64, steps: u64) -> Result<(), Failure> {
        self.work = self.work.saturating_add(times.saturating_mul(steps));
        if self.work > MAX_WORK {
            return Err(Failure::Timeout);
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> Size {
        let name = name.trim_start_matches('.');
        let found = self.scope.iter().rev().find(|(known, _)| known == name);
        // An unknown name is an error in the evaluation.
        found.map_or(Size::SCALAR, |(_, size)| size.clone())
    }

    fn collection<'e>(
        &mut self,
        parts: impl Iterator<Item = &'e IdedExpr>,
        times: u64,
    ) -> Result<Size, Failure> {
        let mut whole = Size { length: 0, total: 1, element: None };
        let mut element = Size::SCALAR;
        for part in parts {
            let size = self.visit(part, times)?;
            whole.length = whole.length.saturating_add(1);
            whole.total = whole.total.saturating_add(size.total);
            element = element.or(&size);
        }
        self.spend(times, whole.total / BYTES_A_STEP)?;
        whole.element = Some(Arc::new(element));
        Ok(whole)
    }

    fn call(&mut self, call: &CallExpr, times: u64) -> Result<Size, Failure> {
        let mut operands = Vec::with_capacity(3);
        for operand in call.target.as_deref().into_iter().chain(&call.args) {
            operands.push(self.visit(operand, times)?);
        }
        let totals = operands.iter().map(|operand| operand.total);
        let all = totals.clone().fold(0, u64::saturating_add);
        let first = operands.first().unwrap_or(&Size::SCALAR);
        let last = operands.last().unwrap_or(&Size::SCALAR);
        let (touched, size) = match call.func_name.as_str() {
            op::ADD => (all, first.and(last, 1)),
            op::CONDITIONAL => {
                let chosen = operands.get(1).unwrap_or(&Size::SCALAR);
                (0, chosen.or(last))
            }
            op::INDEX => (0, first.element()),
            op::EQUALS
            | op::NOT_EQUALS
            | op::LESS
            | op::LESS_EQUALS
            | op::GREATER
            | op::GREATER_EQUALS => (totals.min().unwrap_or_default(), Size::SCALAR),
            // One comparison with every element.
            op::IN => (last.total.saturating_mul(BYTES_A_STEP), Size::SCALAR),
            op::LOGICAL_AND
            | op::LOGICAL_OR
            | op::LOGICAL_NOT
            | op::NOT_STRICTLY_FALSE
            | op::NEGATE
            | op::SUBSTRACT
            | op::MULTIPLY
            | op::DIVIDE
            | op::MODULO
            | "size" => (0, Size::SCALAR),
            "contains" | "startsWith" | "endsWith" | "int" | "uint" | "double" | "bool" => {
                (all, Size::SCALAR)
            }
            // No number is longer as text.
            "string" => (all, first.or(&Size::bytes(32))),
            "dyn" => (all, first.clone()),
            _ => return Err(Failure::Invalid),
        };
        self.spend(times, touched / BYTES_A_STEP)?;
        Ok(size)
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr, times: u64) -> Result<Size, Failure> {
        let range = self.visit(&loops.iter_range, times)?;
        let first = self.visit(&loops.accu_init, times)?;
        let inner = times.saturating_mul(range.length.max(1));
        let element = range.element();
        self.spend(inner, 1 + element.total / BYTES_A_STEP)?;

        let outer = self.scope.len();
        self.scope.push((loops.iter_var.clone(), element.clone()));
        if let Some(second) = &loops.iter_var2 {
            self.scope.push((second.clone(), element));
        }
        // The growth of the accumulator per step is what a step makes of an empty one.
        self.scope.push((loops.accu_var.clone(), Size::SCALAR));
        self.visit(&loops.loop_cond, inner)?;
        let step = self.visit(&loops.loop_step, inner)?;
        let accumulated = if keeps_elements(loops) {
            first.and(&range, 1)
        } else {
            first.and(&step, range.length)
        };
        self.scope.truncate(outer);
        self.scope.push((loops.accu_var.clone(), accumulated));
        let result = self.visit(&loops.result, times);
        self.scope.truncate(outer);
        result
    }
}

/// Whether the step only keeps some of the elements, as `filter` does. The result is then no larger
/// than the range.
fn keeps_elements(loops: &ComprehensionExpr) -> bool {
    let is = |expression: &IdedExpr, name: &str| matches!(&expression.expr, Expr::Ident(ident) if ident == name);
    let Expr::Call(choice) = &loops.loop_step.expr else {
        return false;
    };
    let [_, kept, dropped] = choice.args.as_slice() else {
        return false;
    };
    let Expr::Call(append) = &kept.expr else {
        return false;
    };
    let [accumulator, added] = append.args.as_slice() else {
        return false;
    };
    let Expr::List(added) = &added.expr else {
        return false;
    };
    choice.func_name == op::CONDITIONAL
        && append.func_name == op::ADD
        && is(dropped, &loops.accu_var)
        && is(accumulator, &loops.accu_var)
        && matches!(added.elements.as_slice(), [only] if is(only, &loops.iter_var))
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

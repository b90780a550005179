//! Statements that store many rows at once compare each with a hashed list of the others, and not with each other.

use crate::plans::{Parameter, plan_of};
use sqlx::PgPool;

const WITH_VERDICTS: &str = concat!(
    "with ",
    include_str!("../../src/store/sql/apply_change.sql"),
    "),\n",
    include_str!("../../src/store/sql/apply_moved.sql"),
    ",\n",
    include_str!("../../src/store/sql/apply_verdicts.sql"),
    include_str!("../../src/store/sql/apply_end.sql"),
);
const CREATE: &str = concat!(
    include_str!("../../src/store/sql/create_run.sql"),
    include_str!("../../src/store/sql/create_end.sql")
);

/// The types of so many parameters. The database finds those that the statement names.
fn parameters(statement: &str, count: usize) -> Vec<Parameter<'static>> {
    let of = |number| match statement.contains(&format!("${number}::")) {
        true => "unknown",
        false => "text",
    };
    (1..=count).map(|number| (of(number), "null")).collect()
}

#[sqlx::test(migrations = "./migrations")]
async fn no_statement_compares_each_row_of_a_batch_with_each_other(pool: PgPool) {
    for (statement, count, lists) in [(WITH_VERDICTS, 48, 1), (CREATE, 39, 3)] {
        let plan = plan_of(&pool, statement, &parameters(statement, count)).await;
        assert_eq!(plan.matches("hashed SubPlan").count(), lists, "{plan}");
    }
}

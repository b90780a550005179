//! `surety budget extend RUN` and `surety budget stop RUN`

use clap::{Args, Subcommand};
use surety_common::config::ClientConfig;
use surety_common::wire::v1;

use super::named_run::NamedRun;
use crate::answering::{budgets, extend};
use crate::connection::Connection;
use crate::exit::Exit;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::text::run_state;
use crate::wire_json;

/// Raises the budgets of a run, or ends a run that waits for one.
#[derive(Debug, Args)]
pub struct Budget {
    #[command(subcommand)]
    way: Way,
}

/// The ways to answer a run that waits for a budget.
#[derive(Debug, Subcommand)]
enum Way {
    /// Raise the budgets. Without an amount each budget is raised by its present value.
    Extend(Extend),
    /// End a run that waits for a budget, as `budget_exceeded`.
    Stop(Stop),
}

/// The amounts.
#[derive(Debug, Args)]
struct Extend {
    #[command(flatten)]
    named: NamedRun,

    /// Tokens to add.
    #[arg(long, value_name = "NUMBER")]
    tokens: Option<u64>,

    /// Cost to add, in millionths of the billing currency.
    #[arg(long, value_name = "NUMBER")]
    cost_micros: Option<u64>,

    #[command(flatten)]
    client: ClientConfig,
}

/// The run.
#[derive(Debug, Args)]
struct Stop {
    #[command(flatten)]
    named: NamedRun,

    #[command(flatten)]
    client: ClientConfig,
}

impl Budget {
    pub(super) async fn run(self, output: Output) -> Result<Exit, Failure> {
        match self.way {
            Way::Extend(Extend { named, tokens, cost_micros, client }) => {
                if matches!((tokens, cost_micros), (Some(0), None | Some(0)) | (None, Some(0))) {
                    let message = "nothing is added to the budgets";
                    let advice = "Give --tokens or --cost-micros above 0, or neither to double the budgets; `surety budget \
                                  stop RUN` ends the run.";
                    return Err(Failure::new(Code::ValueInvalid, message, advice));
                }
                let (connection, run_id) = named.find(&client).await?;
                let (add_tokens, add_cost_micros) = match (tokens, cost_micros) {
                    (None, None) => budgets(&connection, &run_id).await?,
                    (tokens, cost) => (tokens.unwrap_or_default(), cost.unwrap_or_default()),
                };
                let request = v1::ExtendBudgetRequest {
                    run_id,
                    add_tokens,
                    add_cost_micros,
                    ..Default::default()
                };
                answer(&connection, request, output).await
            }
            Way::Stop(Stop { named, client }) => {
                let (connection, run_id) = named.find(&client).await?;
                let request = v1::ExtendBudgetRequest { run_id, stop: true, ..Default::default() };
                answer(&connection, request, output).await
            }
        }
    }
}

async fn answer(
    connection: &Connection,
    request: v1::ExtendBudgetRequest,
    output: Output,
) -> Result<Exit, Failure> {
    let run = extend(connection, request).await?;
    let limits = run.limits.unwrap_or_default();
    let shown = || {
        let budget = |unit: &str, budget: Option<u64>| budget.map(|of| format!("{of} {unit}"));
        let both = [
            budget("tokens", limits.token_budget),
            budget("millionths of cost", limits.cost_budget_micros),
        ];
        let amounts = both.into_iter().flatten().collect::<Vec<_>>().join(", ");
        format!("run {} is {}; its budgets are {amounts}", run.id, run_state(run.state()))
    };
    output.either(&wire_json::message("Run", &run), shown)?;
    Ok(Exit::Done)
}

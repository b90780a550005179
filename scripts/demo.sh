#!/usr/bin/env bash
# The demo: a plan repairs a small repository and proves it; a plan that did nothing claims the same
# and is refused; a model reaches the goal without a plan, after one lie and one approval. The model
# is a script behind a real endpoint on this machine. Everything lives in a temporary folder, on
# ports the system chose, so the demo runs beside another and leaves nothing behind.
#
#   SURETY_BIN=FILE      use this binary instead of building one
#   DEMO_MODEL_BIN=FILE  use this binary of the scripted model; by default that beside SURETY_BIN, else
#                        one is built
#   DEMO_KEEP=1          keep the temporary folder, and say where it is
set -euo pipefail
cd "$(dirname "$0")/.."

readonly READY_WITHIN_S=90
readonly STOPPED_WITHIN_S=30
readonly RULE='────────────────────────────────────────────────────────────────────────'

surety="${SURETY_BIN:-}"
model="${DEMO_MODEL_BIN:-}"
up_pid=
model_pid=
finished=0

# Short, because a Unix socket's path may have 107 bytes, and a Mac's TMPDIR takes half of them.
tmp="$(cd "$(mktemp -d /tmp/surety-demo.XXXXXX)" && pwd -P)"
readonly tmp

title() { printf '\n%s\n%s\n%s\n' "$RULE" "$*" "$RULE"; }
say() { printf '%s\n' "$*"; }

fail() {
  printf '\ndemo: FAILED: %s\n' "$*" >&2
  exit 1
}

# The processes that run in the folder or have it in their command line. ENVIRON keeps the folder
# off awk's own command line.
our_processes() {
  ps -eo pid=,args= | FOLDER="$tmp" SELF="$$" awk '
    index($0, ENVIRON["FOLDER"]) && $1 != ENVIRON["SELF"] { print }'
}

alive() { kill -0 "$1" 2>/dev/null; }

# stop: ends `surety up` as an operator would, and checks that no process of it is left.
stop() {
  [ -n "$up_pid" ] || return 0
  local pid="$up_pid" deadline=$((SECONDS + STOPPED_WITHIN_S)) status=0
  up_pid=
  kill -TERM "$pid" 2>/dev/null || true
  while alive "$pid" && [ "$SECONDS" -lt "$deadline" ]; do sleep 0.1; done
  if alive "$pid"; then
    kill -KILL "$pid" 2>/dev/null || true
    say "demo: surety up did not end within $STOPPED_WITHIN_S s of SIGTERM and was killed" >&2
    status=1
  fi
  wait "$pid" 2>/dev/null || {
    say "demo: surety up ended with status $?" >&2
    status=1
  }
  if [ -n "$(our_processes)" ]; then
    say "demo: left running after surety up ended:" >&2
    our_processes >&2
    # Each by its id: these run in the folder, which is removed next.
    our_processes | while read -r pid _; do kill -TERM "$pid" 2>/dev/null || true; done
    status=1
  fi
  return "$status"
}

# end PID: ends a process that the demo started beside the services.
end() {
  [ -n "$1" ] || return 0
  kill -TERM "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

clean_up() {
  local status=$?
  trap - EXIT INT TERM
  stop || status=1
  end "$model_pid"
  if [ "$finished" -ne 1 ] && [ -s "$tmp/up.log" ]; then
    say "demo: the last lines of surety up:" >&2
    tail -n 30 "$tmp/up.log" >&2
  fi
  if [ -n "${DEMO_KEEP:-}" ]; then
    say "demo: kept $tmp"
  else
    rm -rf "$tmp"
  fi
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

build() {
  local beside built
  beside="$(dirname "$surety")/scripted-model"
  if [ -z "$model" ] && [ -n "$surety" ] && [ -x "$beside" ]; then model="$beside"; fi
  [ -z "$surety" ] || [ -z "$model" ] || return 0
  title "Building surety and the demo's model (the first time takes some minutes)"
  cargo build --locked --workspace --bin surety --bin surety-sandbox --bin scripted-model
  # Absolute, because some commands run in other folders.
  built="$(cd "${CARGO_TARGET_DIR:-target}/debug" && pwd -P)"
  surety="${surety:-$built/surety}"
  model="${model:-$built/scripted-model}"
}

# start_model: the endpoint of the scripted model, which the services are told of when they start.
start_model() {
  # No setting of the caller may apply: not another endpoint, nor a key.
  unset "${!SURETY_MODEL_@}"
  "$model" examples/model/replies.yaml >"$tmp/model.url" </dev/null &
  model_pid=$!
  local deadline=$((SECONDS + READY_WITHIN_S))
  until [ -s "$tmp/model.url" ]; do
    alive "$model_pid" || fail "the scripted model ended before it was ready"
    [ "$SECONDS" -lt "$deadline" ] || fail "the scripted model was not ready within $READY_WITHIN_S s"
    sleep 0.1
  done
  SURETY_MODEL_URL="$(cat "$tmp/model.url")"
  export SURETY_MODEL_URL SURETY_MODEL_NAME=scripted
  say "a scripted model answers at $SURETY_MODEL_URL"
}

# start: the three services and a private Postgres in one process, ports chosen by the system.
start() {
  # No setting of the caller may apply: not a database, an address, nor a token.
  unset DATABASE_URL SURETY_URL SURETY_TOKEN SURETY_TOKEN_FILE SURETY_GATE_URL
  export SURETY_DATA_DIR="$tmp/data" SURETY_EXECUTOR_DATA_DIR="$tmp/data/executor"
  export SURETY_PLANNER_LISTEN=127.0.0.1:0 SURETY_EXECUTOR_LISTEN=127.0.0.1:0 SURETY_GATE_LISTEN=127.0.0.1:0
  # Postgres refuses root, so under root its files belong to another user, which needs access to the
  # folder.
  chmod 711 "$tmp"
  "$surety" up --data-dir "$SURETY_DATA_DIR" </dev/null >"$tmp/up.log" 2>&1 &
  up_pid=$!
  local deadline=$((SECONDS + READY_WITHIN_S))
  until [ -s "$SURETY_DATA_DIR/endpoint" ] &&
    "$surety" health "$(cat "$SURETY_DATA_DIR/endpoint")" >/dev/null 2>&1; do
    alive "$up_pid" || fail "surety up ended before it was ready"
    [ "$SECONDS" -lt "$deadline" ] || fail "surety up was not ready within $READY_WITHIN_S s"
    sleep 0.1
  done
  say "surety is up at $(cat "$SURETY_DATA_DIR/endpoint"), its data under $SURETY_DATA_DIR"
}

# run_plan PLAN WORKSPACE LOG: follows a run; its exit code is left in run_status, its id in run_id.
run_plan() {
  say "\$ surety run $1 --workspace ${2#"$tmp"/}"
  run_status=0
  "$surety" run "$1" --workspace "$2" 2>&1 | tee "$3" || run_status="${PIPESTATUS[0]}"
  run_id="$(grep -Eo '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' "$3" | head -n 1 || true)"
  [ -n "$run_id" ] || fail "surety run $1 named no run (exit code $run_status)"
}

# project_tests FOLDER: the project's own tests, as its author would run them.
project_tests() {
  (cd "$1" && env -u CARGO_TARGET_DIR -u RUSTFLAGS cargo test --offline --color never) \
    >"$tmp/tests.log" 2>&1
}

repair() {
  title "1. A repository with a bug: examples/repair/project"
  examples/repair/fresh.sh "$tmp/repair"
  if project_tests "$tmp/repair"; then
    fail "the project's tests pass before the repair; the example is broken"
  fi
  grep -E '^(test .*FAILED|test result: FAILED)' "$tmp/tests.log" | head -n 3 ||
    fail "the project does not build: $(tail -n 3 "$tmp/tests.log")"

  title "2. A plan repairs it"
  run_plan examples/repair/plan.yaml "$tmp/repair" "$tmp/repair.log"
  [ "$run_status" -eq 0 ] || fail "the repair was not accepted: exit code $run_status, expected 0"
  repair_id="$run_id"
  say ""
  say "\$ git diff --stat"
  git -C "$tmp/repair" --no-pager diff --stat
  git -C "$tmp/repair" diff --quiet -- src/lib.rs && fail "accepted, but src/lib.rs did not change"
  project_tests "$tmp/repair" || fail "accepted, but the project's tests fail"

  title "3. Why it was accepted: timeline, receipts, verdict"
  say "\$ surety show $repair_id"
  "$surety" show "$repair_id" || fail "surety show $repair_id did not answer"
}

# A command instead of a plan: no service takes part in it.
verify() {
  title "8. Any command, verified without a service"
  examples/repair/fresh.sh "$tmp/verify"
  printf 'verify: [cargo test --offline]\n' >"$tmp/checks.yaml"
  say "\$ surety verify checks.yaml -- echo 'all tests pass'"
  local status=0
  (cd "$tmp/verify" && "$surety" verify "$tmp/checks.yaml" -- echo 'all tests pass') || status=$?
  [ "$status" -eq 2 ] || fail "the false claim ended with exit code $status, expected 2"
  say ""
  say "\$ surety verify checks.yaml -- sh -c 'cat >src/lib.rs' <repaired.rs"
  status=0
  (cd "$tmp/verify" && "$surety" verify "$tmp/checks.yaml" -- sh -c 'cat >src/lib.rs' \
    <"$tmp/repair/src/lib.rs") || status=$?
  [ "$status" -eq 0 ] || fail "the repair was not accepted: exit code $status, expected 0"
}

goal() {
  title "6. A goal without a plan: a model plans, lies once, and asks before it edits"
  examples/repair/fresh.sh "$tmp/model"
  local status=0 log="$tmp/model.log"
  local text="Meetings back to back are one block: make the tests pass." check="cargo test --offline"
  say "A person has to approve each edit from now on:"
  say "\$ surety policy set default --confirm-tools edit_file"
  "$surety" policy set default --confirm-tools edit_file >/dev/null || fail "the policy could not be set"
  say "\$ surety run --goal \"$text\" --verify \"$check\" --workspace model"
  "$surety" run --goal "$text" --verify "$check" --workspace "$tmp/model" 2>&1 | tee "$log" ||
    status="${PIPESTATUS[0]}"
  [ "$status" -eq 4 ] || fail "the run did not wait for a person: exit code $status, expected 4"
  goal_id="$(head -n 1 "$log")"
  git -C "$tmp/model" diff --quiet || fail "a file was edited before the approval"
  say ""
  say "A person looks at what is asked, and approves it:"
  say "\$ surety approve $goal_id --yes"
  "$surety" approve "$goal_id" --yes || fail "surety approve did not end well"
  say ""
  say "\$ surety watch $goal_id"
  status=0
  "$surety" watch "$goal_id" 2>&1 | tail -n 22 || status="${PIPESTATUS[0]}"
  [ "$status" -eq 0 ] || fail "the goal was not reached: exit code $status, expected 0"
  project_tests "$tmp/model" || fail "accepted, but the project's tests fail"

  title "7. What became of the lie"
  say "\$ surety show $goal_id"
  "$surety" show "$goal_id" >"$tmp/show.log" || fail "surety show $goal_id did not answer"
  cat "$tmp/show.log"
  grep -q "no_successful_command" "$log" || fail "the lie was not refused by the tests"
}

liar() {
  title "4. A plan that edits nothing says it is done"
  examples/repair/fresh.sh "$tmp/liar"
  run_plan examples/liar/plan.yaml "$tmp/liar" "$tmp/liar.log"
  [ "$run_status" -eq 2 ] || fail "the false claim ended with exit code $run_status, expected 2"
  liar_id="$run_id"

  title "5. Why it was refused"
  say "\$ surety show $liar_id"
  "$surety" show "$liar_id" >"$tmp/show.log" || fail "surety show $liar_id did not answer"
  cat "$tmp/show.log"
  local reason
  for reason in no_successful_command no_content_evidence no_workspace_change; do
    grep -q "$reason" "$tmp/show.log" || fail "the refusal does not give the reason $reason"
  done
  [ -z "$(git -C "$tmp/liar" status --porcelain)" ] || fail "the liar's workspace changed"
}

build
title "Starting surety: planner, executor, acceptgate and a private Postgres"
start_model
start
repair
liar
goal
stop || fail "surety did not stop cleanly"
verify
finished=1

title "What you saw"
cat <<SUMMARY
  repair  accepted   run $repair_id
          The plan's steps did the work; the runner ran the tests itself after
          the last write; the gate read the receipts and agreed.
  liar    refused    run $liar_id
          Same goal, same checks, nothing done: no passing tests, no changelog
          line, no change. Saying "done" moved nothing.
  goal    accepted   run $goal_id
          A goal and no plan: a model planned it over HTTP. Its first claim was a
          lie and was refused, with the checks that failed; then it repaired the
          code, and a person approved the one edit before it was made.

  verify  the same two by the command "surety verify", after every service had stopped.

  All stopped, no process left. Next: README.md, "Usage on your own repository".
SUMMARY

//! Questions to a person.

use crate::client::{Called, Client};
use crate::flow::broken;
use crate::support::Ended;
use serde_json::{Value, json};

fn asking(client: &mut Client, options: &Value) -> i64 {
    let arguments = json!({"question": "Which colour?", "options": options});
    client.send("tools/call", json!({"name": "surety_ask_person", "arguments": arguments}))
}

#[test]
fn a_form_of_the_client_brings_the_answer_of_the_person() {
    let home = broken();
    let mut client = Client::start(&home, &[]);
    client.initialize(json!({"elicitation": {}}));
    let id = asking(&mut client, &json!(["red", "blue"]));
    let request = client.asked();
    assert_eq!(request["method"], "elicitation/create");
    let params = &request["params"];
    assert!(params["message"].as_str().unwrap().contains("Which colour?"), "{params}");
    let answer = &params["requestedSchema"]["properties"]["answer"];
    assert_eq!(answer["enum"], json!(["red", "blue"]));
    client.reply(&request, json!({"action": "accept", "content": {"answer": "blue"}}));
    let answered = Called::of(&client.answer(id)["result"]).ok();
    assert_eq!(answered.value, json!({"id": 1, "answered": true, "answer": "blue"}));

    // Neither a refusal nor an answer that is no option becomes one.
    for (reply, why) in [
        (json!({"action": "decline"}), "declined"),
        (json!({"action": "cancel"}), "closed"),
        (json!({"action": "accept", "content": {}}), "without an answer"),
    ] {
        let id = asking(&mut client, &json!([]));
        let request = client.asked();
        client.reply(&request, reply);
        let answered = Called::of(&client.answer(id)["result"]).ok();
        assert_eq!(answered.value["answered"], false);
        assert!(answered.text.contains(why), "{answered:#?}");
    }
    let id = asking(&mut client, &json!(["red"]));
    let request = client.asked();
    client.reply(&request, json!({"action": "accept", "content": {"answer": "green"}}));
    Called::of(&client.answer(id)["result"]).fails("value_invalid", "green");
    let waits = client.call("surety_status", json!({})).ok().value["waits"].clone();
    let open = waits.as_array().unwrap().iter().filter(|wait| wait["answer"].is_null());
    assert_eq!(open.count(), 4);
    assert_eq!(waits[0]["answered_by"], "a form of the client");
    client.end();
}

#[test]
fn without_a_form_the_question_waits_for_a_command_of_the_person() {
    let home = broken();
    let mut client = Client::open(&home, &[]);
    let id = asking(&mut client, &json!(["red", "blue"]));
    let asked = Called::of(&client.answer(id)["result"]).ok();
    assert_eq!(asked.value["how"], "surety contract answer 1 TEXT");
    let answer =
        |text: &str| Ended::of(&home.command(&["contract", "answer", "1", text]).output().unwrap());
    answer("green").is(1, "error[value_invalid]");
    answer("red").is(0, "red (by ");
    answer("blue").is(1, "has an answer");
    let status = client.call("surety_status", json!({})).ok();
    assert_eq!(status.value["waits"][0]["answer"], "red");
    client.end();
}

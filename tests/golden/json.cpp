// The documents that the command prints with --json: the names of their fields and the types of the
// values. Scripts rely on them.
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden/golden_file.hpp"
#include "support/backend.hpp"
#include "support/eventually.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"

namespace dovetail::testing {
namespace {

using nlohmann::ordered_json;
using Words = std::vector<std::string>;

/// Calls the command on an SQLite file, and records the structure of the output.
class JsonForms {
 public:
  ordered_json ask(const Words& words, int code = 0) {
    text_ += "--- dovetail";
    for (const auto& word : words) text_ += " " + placeholder(word);
    text_ += "\n";
    auto answer = fetch(words, code);
    describe("", answer);
    return answer;
  }

  /// Like ask(), but records nothing.
  ordered_json fetch(Words words, int code = 0) {
    words.emplace_back("--json");
    const auto result = run_command(call(words));
    EXPECT_EQ(result.code, code) << ::testing::PrintToString(words) << result.err;
    auto answer = ordered_json::parse(result.out, nullptr, false);
    EXPECT_FALSE(answer.is_discarded()) << ::testing::PrintToString(words) << result.out;
    return answer;
  }

  void run(const Words& words) {
    const auto result = run_command(call(words));
    EXPECT_EQ(result.code, 0) << ::testing::PrintToString(words) << result.err;
  }

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] Words call(const Words& words) const {
    Words all{"env", "-u", "DOVETAIL_GROUP", "DOVETAIL_DATABASE=" + url_, command_path};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  /// Ids and owners are different in every run.
  static std::string placeholder(const std::string& word) {
    if (word.ends_with(".toml")) return "FILE.toml";
    return word.size() >= 36 && word[8] == '-' && word[13] == '-' ? "ID" : word;
  }

  void describe(const std::string& path, const ordered_json& value) {
    if (value.is_object() && !value.empty()) {
      for (const auto& [name, member] : value.items()) {
        describe(path.empty() ? name : path + "." + name, member);
      }
    } else if (value.is_array() && !value.empty()) {
      describe(path + "[]", value.front());
    } else {
      text_ += "  " + path + " " + value.type_name() + "\n";
    }
  }

  TemporaryDirectory directory_;
  std::string url_ = "sqlite:" + (directory_.path() / "golden.db").string();
  std::string text_;
};

std::string claim_of(const ordered_json& message) {
  return message["id"].get<std::string>() + ":" + std::to_string(message["epoch"].get<int>());
}

/// Gives claimed messages back in every way, and acks one.
void describe_settlements(JsonForms& forms) {
  const std::vector<Words> ways{
      {"ack"}, {"abandon", "--error", "busy"}, {"snooze", "--delay", "60"}};
  for (std::size_t count = 0; count < ways.size(); ++count) forms.run({"enqueue", "settled"});
  const auto claimed = forms.fetch({"claim", "--topic", "settled"});
  const auto owner = claimed["owner"].get<std::string>();
  for (std::size_t index = 0; index < ways.size(); ++index) {
    auto words = ways[index];
    words.insert(words.end(), {"--owner", owner, claim_of(claimed["messages"][index])});
    forms.ask(words);
  }
}

/// Enqueues, claims and settles messages, so that each document has a row.
void describe_queue(JsonForms& forms) {
  forms.ask({"enqueue", "orders", "{}", "--correlation-id", "c", "--header", "a=b"});
  const auto first = forms.ask({"claim"});
  const auto owner = first["owner"].get<std::string>();
  const auto claim = claim_of(first["messages"][0]);
  forms.ask({"renew", "--owner", owner, claim});
  forms.ask({"fail", "--owner", owner, "--error", "broken", claim});
  forms.ask({"dead-letters", "list", "--limit", "1"});
  forms.ask({"dead-letters", "summary"});
  forms.ask({"dead-letters", "replay", "--all", "--dry-run"});
  const auto id = first["messages"][0]["id"].get<std::string>();
  forms.ask({"dead-letters", "show", id});
  forms.ask({"dead-letters", "replay", id});
  forms.ask({"dead-letters", "purge", "--topic", "orders"});
  forms.ask({"pause", "orders"});
  forms.ask({"resume", "orders"});
  describe_settlements(forms);
  forms.run({"pause", "orders"});  // status lists paused topics
  forms.ask({"reap"});
}

/// Fails the first message of the stream permanently, which blocks the stream.
void block_stream(JsonForms& forms) {
  const auto claimed = forms.fetch({"claim", "--streams", "--batch", "1"});
  const auto owner = claimed["owner"].get<std::string>();
  forms.run({"fail", "--owner", owner, "--error", "broken", claim_of(claimed["messages"][0])});
}

void describe_streams(JsonForms& forms) {
  forms.run({"enqueue", "step", "{}", "--stream", "order-1"});
  block_stream(forms);
  forms.ask({"streams", "list", "--limit", "1"});
  forms.ask({"streams", "show", "order-1"});
  forms.ask({"streams", "resume", "order-1"});
  block_stream(forms);
  forms.ask({"streams", "skip", "order-1"});
}

void describe_events(JsonForms& forms) {
  forms.ask({"events", "append", "order-1", "OrderPaid", "{}"});
  forms.ask({"events", "read", "order-1"});
  forms.ask({"events", "streams"});
  auto platform = Platform::open(forms.url(), {.log_sink = null_log_sink()});
  platform.events().subscribe(
      "billing", {.on_failure = SubscriptionFailure::park_event, .max_attempts = 1},
      [](std::span<const Event>, SubscriptionContext&) { throw PermanentFailure("broken"); });
  platform.start();
  EXPECT_TRUE(
      eventually([&] { return !platform.events().subscriptions().parked("billing").empty(); }));
  platform.stop();
  forms.ask({"subscriptions", "list"});
  forms.ask({"subscriptions", "show", "billing"});
  forms.ask({"subscriptions", "resume", "billing", "--parked"});
  forms.ask({"subscriptions", "pause", "billing"});
  forms.ask({"subscriptions", "skip", "billing", "1"});
  forms.ask({"subscriptions", "rebuild", "billing"});
}

void describe_inbox(JsonForms& forms, Platform& platform) {
  platform.inbox().mark_dead("bank", "1", "forged");
  forms.ask({"inbox", "status"});
  forms.ask({"inbox", "dead-letters", "--limit", "1"});
  forms.ask({"inbox", "show", "bank", "1"});
  forms.ask({"inbox", "replay", "--all"});
  forms.ask({"inbox", "purge", "--older-than", "3600"});
}

void describe_schedule(JsonForms& forms) {
  const auto timer = forms.ask({"timers", "schedule", "orders", "--in", "3600"});
  forms.ask({"timers", "list"});
  forms.ask({"timers", "cancel", timer["timer_id"].get<std::string>()});
  forms.ask({"jobs", "create", "nightly", "report", "@daily"});
  forms.ask({"jobs", "list"});
  forms.ask({"jobs", "trigger", "nightly"});
  forms.ask({"jobs", "runs", "nightly"});
  forms.ask({"jobs", "disable", "nightly"});
  forms.ask({"jobs", "remove", "nightly"});
  forms.ask({"cron", "explain", "@daily", "--count", "1"});
}

void describe_fanout(JsonForms& forms, Platform& platform) {
  platform.fanout().add({.topic = "etl", .work_key = "payments"},
                        [](const FanoutPlan&) { return std::vector<FanoutCandidate>{}; });
  platform.fanout().enqueue_due({.topic = "etl", .work_key = "payments"}, {{{.shard_key = "a"}}});
  forms.ask({"fanout", "list"});
  forms.ask({"fanout", "run", "etl"});
  forms.ask({"fanout", "cursors", "etl"});
  forms.ask({"fanout", "cadence", "etl", "payments", "--every", "60"});
  forms.ask({"fanout", "purge", "etl", "--older-than", "3600"});
  forms.ask({"fanout", "remove", "etl", "payments"});
}

void describe_health(JsonForms& forms, Platform& platform) {
  const auto owner = OwnerToken::generate();
  platform.outbox().enqueue({.topic = "broken", .stream = "s"});
  const auto claimed = platform.outbox().claim_streams({.owner = owner});
  ASSERT_EQ(claimed.size(), 1U);
  platform.outbox().fail(owner, std::vector{claimed[0].claim}, "broken");
  forms.ask({"health"});
  platform.outbox().resume_stream("s");
  const auto again = platform.outbox().claim_streams({.owner = owner});
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(platform.outbox().ack(owner, std::vector{again[0].claim}), 1U);
}

void describe_rest(JsonForms& forms, Platform& platform) {
  const auto join = platform.joins().start({.expected_steps = 1});
  const auto step = platform.outbox().enqueue({.topic = "step", .joins = {join}});
  EXPECT_TRUE(step.stored());
  forms.ask({"joins", "list", "--limit", "1"});
  forms.ask({"joins", "show", join.to_string()});
  const auto lease = platform.leases().try_acquire("nightly", "me", std::chrono::seconds{60}, {});
  EXPECT_TRUE(lease.has_value());
  forms.ask({"leases", "list"});
  forms.ask({"leases", "release", "nightly"});
  platform.on("step", [](const Message&, HandlerContext&) {});
  platform.start();
  EXPECT_TRUE(eventually([&] { return platform.instances().list().size() == 1; }));
  forms.ask({"instances"});
  platform.stop();
}

/// The group has one database, the one of `forms`, with a dead letter.
void describe_group(JsonForms& forms, Platform& platform) {
  const TemporaryDirectory directory;
  const auto file = (directory.path() / "group.toml").string();
  std::ofstream{file} << "[databases]\na = \"" << forms.url() << "\"\n";
  const auto ask = [&](Words words) {
    words.insert(words.end(), {"--group", file});
    return forms.ask(words);
  };
  const auto owner = OwnerToken::generate();
  platform.outbox().enqueue({.topic = "broken"});
  const auto claimed = platform.outbox().claim({.owner = owner, .topics = {"broken"}});
  ASSERT_EQ(claimed.size(), 1U);
  platform.outbox().fail(owner, std::vector{claimed[0].claim}, "broken");
  ask({"migrate"});
  ask({"migrate", "--check"});
  ask({"status"});
  ask({"dead-letters", "list", "--limit", "1"});
  ask({"dead-letters", "summary"});
  ask({"dead-letters", "show", claimed[0].message.message_id.to_string()});
  ask({"dead-letters", "replay", "--all", "--dry-run"});
  ask({"dead-letters", "replay", claimed[0].message.message_id.to_string()});
  ask({"enqueue", "t", "--to", "a"});
}

TEST(Golden, FormOfTheDocumentsInJson) {
  JsonForms forms;
  forms.ask({"migrate"});
  forms.ask({"migrate", "--check"});
  describe_queue(forms);
  describe_streams(forms);
  auto platform = Platform::open(forms.url(), {.log_sink = null_log_sink()});
  describe_inbox(forms, platform);
  describe_schedule(forms);
  describe_fanout(forms, platform);
  forms.ask({"status"});
  describe_health(forms, platform);
  describe_rest(forms, platform);
  describe_events(forms);
  describe_group(forms, platform);
  expect_golden("json.txt", forms.text());
}

}  // namespace
}  // namespace dovetail::testing

// Settles claimed messages: ack, abandon, fail, snooze, renew.
#include <span>

#include "cli/cli.hpp"

namespace dovetail::cli {
namespace {

struct SettleArguments {
  std::string queue = default_queue;
  std::string owner;
  std::vector<std::string> claims;
  std::string error;
  std::optional<double> delay_seconds;
  double lease_seconds = 30;
  std::string on_stream_failure = "block";

  [[nodiscard]] std::optional<std::chrono::milliseconds> delay() const {
    if (!delay_seconds) return std::nullopt;
    return parse_seconds("--delay", *delay_seconds, delay_range);
  }
  [[nodiscard]] StreamFailure stream_failure() const {
    for (const auto each : {StreamFailure::block, StreamFailure::park, StreamFailure::skip_order}) {
      if (on_stream_failure == to_string(each)) return each;
    }
    throw std::invalid_argument("--on-stream-failure must be block, park or skip_order");
  }
};

using Settle = std::function<std::size_t(WorkQueue&, OwnerToken, std::span<const Claim>)>;
/// Checks the arguments of its command, and returns the call to make.
using Prepare = std::function<Settle(const SettleArguments&)>;

Claim parse_claim(const std::string& text) {
  const auto colon = text.find(':');
  std::size_t end = 0;
  Claim claim;
  try {
    claim.id = parse_id<MessageId>("CLAIM", text.substr(0, colon));
    claim.epoch = std::stoll(text.substr(colon + 1), &end);
  } catch (const std::logic_error&) {
    end = 0;
  }
  if (colon == std::string::npos || end == 0 || end != text.size() - colon - 1) {
    throw std::invalid_argument("a CLAIM is <id>:<epoch> as `dovetail claim` prints it, got " +
                                text);
  }
  return claim;
}

void settle(const Globals& globals, const SettleArguments& arguments, const std::string& word,
            const Settle& call) {
  const auto owner = parse_id<OwnerToken>("--owner", arguments.owner);
  std::vector<Claim> claims;
  for (const auto& text : arguments.claims) claims.push_back(parse_claim(text));
  auto platform = globals.open();
  const auto count = call(queue_named(platform, arguments.queue), owner, claims);
  print_effect(
      globals,
      {.word = word,
       .count = count,
       .asked = claims.size(),
       .why_not = "a claim is ignored when it is unknown or settled, when another owner has "
                  "the message, or when the lease has expired"});
}

struct Settlement {
  std::string name;
  std::string word;
  std::string description;
  Prepare prepare;
};

/// Adds a command that takes claims. Its further options are stored in `arguments`.
CLI::App& add_settlement(CLI::App& app, Globals& globals,
                         const std::shared_ptr<SettleArguments>& arguments,
                         const Settlement& settlement) {
  auto& command = add_command(
      app, globals, settlement.name, settlement.description, [&globals, arguments, settlement] {
        settle(globals, *arguments, settlement.word, settlement.prepare(*arguments));
      });
  add_queue_option(command, arguments->queue);
  command.add_option("--owner", arguments->owner, "The UUID of the worker that claimed them")
      ->required();
  command.add_option("CLAIM", arguments->claims, "<id>:<epoch> as claim prints it")->required();
  command.add_flag("--json", globals.json, "Answer in JSON");
  return command;
}

void add_stream_failure(CLI::App& command, SettleArguments& arguments) {
  command
      .add_option("--on-stream-failure", arguments.on_stream_failure,
                  "What becomes of a stream after the last attempt of its message")
      ->check(CLI::IsMember({"block", "park", "skip_order"}))
      ->capture_default_str();
}

Settle ack(const SettleArguments& /*arguments*/) {
  return [](WorkQueue& queue, OwnerToken owner, std::span<const Claim> claims) {
    return queue.ack(owner, claims);
  };
}

Settle abandon(const SettleArguments& arguments) {
  return [options = AbandonOptions{.error = arguments.error,
                                   .delay = arguments.delay(),
                                   .on_stream_failure = arguments.stream_failure()}](
             WorkQueue& queue, OwnerToken owner, std::span<const Claim> claims) {
    return queue.abandon(owner, claims, options);
  };
}

Settle fail(const SettleArguments& arguments) {
  if (arguments.error.empty()) throw std::invalid_argument("--error must not be empty");
  return [error = arguments.error, policy = arguments.stream_failure()](
             WorkQueue& queue, OwnerToken owner, std::span<const Claim> claims) {
    return queue.fail(owner, claims, error, policy);
  };
}

Settle snooze(const SettleArguments& arguments) {
  return [delay = arguments.delay()](WorkQueue& queue, OwnerToken owner,
                                     std::span<const Claim> claims) {
    return queue.snooze(owner, claims, delay);
  };
}

Settle renew(const SettleArguments& arguments) {
  return [lease = parse_seconds("--lease", arguments.lease_seconds, lease_range)](
             WorkQueue& queue, OwnerToken owner, std::span<const Claim> claims) {
    return queue.renew(owner, claims, lease);
  };
}

}  // namespace

void add_settlements(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<SettleArguments>();
  const auto add = [&](const Settlement& settlement) -> CLI::App& {
    return add_settlement(app, globals, arguments, settlement);
  };
  add({"ack", "acked", "Mark claimed messages as done", ack});

  auto& abandoning =
      add({"abandon", "abandoned",
           "Give claimed messages back as failed: they are retried after a delay", abandon});
  abandoning.add_option("--error", arguments->error, "The reason; stored with the message");
  abandoning.add_option("--delay", arguments->delay_seconds,
                        "Seconds until the retry; if absent, a backoff by the number of attempts");
  add_stream_failure(abandoning, *arguments);

  auto& failing = add({"fail", "failed", "Make claimed messages dead letters", fail});
  failing.add_option("--error", arguments->error, "The reason; stored with the message")
      ->required();
  add_stream_failure(failing, *arguments);

  auto& snoozing =
      add({"snooze", "snoozed", "Give claimed messages back; no attempt is charged", snooze});
  snoozing.add_option("--delay", arguments->delay_seconds,
                      "Seconds until the retry; at once if absent");

  auto& renewing = add({"renew", "renewed", "Renew the leases of claimed messages", renew});
  renewing.add_option("--lease", arguments->lease_seconds, "Seconds until the leases expire")
      ->capture_default_str();
}

}  // namespace dovetail::cli

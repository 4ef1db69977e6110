#include "transport/nats/durable.hpp"

#include <nlohmann/json.hpp>

namespace dovetail::transport::nats {
namespace {

using nlohmann::json;

// Error codes of the JetStream API.
constexpr int consumer_not_found = 10014;

json asked(Connection& connection, const std::string& subject, const json& body,
           MonoTime deadline) {
  auto answer = json::parse(connection.ask(subject, body.is_null() ? "" : body.dump(), deadline),
                            nullptr, false);
  if (!answer.is_object()) throw std::runtime_error("the broker's answer is not JSON");
  return answer;
}

int error_code(const json& answer) {
  return answer.contains("error") ? answer["error"].value("err_code", -1) : 0;
}

json creation(const NatsConsumerOptions& options) {
  const auto nanoseconds = std::chrono::nanoseconds{options.ack_wait}.count();
  json config{{"durable_name", options.durable},
              {"ack_policy", "explicit"},
              {"ack_wait", nanoseconds},
              {"deliver_policy", "all"},
              {"replay_policy", "instant"},
              {"max_deliver", -1},
              {"max_ack_pending", options.max_ack_pending}};
  if (!options.filter_subject.empty()) config["filter_subject"] = options.filter_subject;
  return {{"stream_name", options.stream}, {"config", std::move(config)}};
}

[[noreturn]] void refuse(const NatsConsumerOptions& options, const std::string& reason) {
  throw std::runtime_error("the consumer " + options.durable + " of the stream " + options.stream +
                           ": " + reason);
}

}  // namespace

std::chrono::milliseconds ensure_durable(Connection& connection, const NatsConsumerOptions& options,
                                         const TransportCall& call) {
  const auto place = options.stream + "." + options.durable;
  auto info = asked(connection, "$JS.API.CONSUMER.INFO." + place, {}, call.deadline);
  if (error_code(info) == consumer_not_found) {
    info = asked(connection, "$JS.API.CONSUMER.DURABLE.CREATE." + place, creation(options),
                 call.deadline);
  }
  if (error_code(info) != 0) {
    refuse(options, info["error"].value("description", std::string{"the broker gave no reason"}));
  }
  const auto config = info.value("config", json::object());
  if (config.contains("deliver_subject")) refuse(options, "it is not a pull consumer");
  if (config.value("ack_policy", "") != "explicit") {
    refuse(options, "its ack_policy is not explicit");
  }
  const std::chrono::nanoseconds ack_wait{config.value("ack_wait", std::int64_t{30'000'000'000})};
  return std::chrono::duration_cast<std::chrono::milliseconds>(ack_wait);
}

}  // namespace dovetail::transport::nats

// The options of routes and sources, from texts.
#include "config/transport_settings.hpp"

#include <chrono>
#include <stdexcept>

namespace dovetail::config {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

StreamFailure stream_failure_of(const std::string& word) {
  for (const auto each : {StreamFailure::block, StreamFailure::park, StreamFailure::skip_order}) {
    if (to_string(each) == word) return each;
  }
  throw std::invalid_argument("on_stream_failure must be block, park or skip_order, not " + word);
}

std::string required(const transport::Settings& given, const char* key) {
  auto text = given.text(key);
  if (text.empty()) throw std::invalid_argument(std::string{key} + " is missing");
  return text;
}

}  // namespace

PublishSettings publish_settings(const transport::Kind& kind, const transport::Settings& given,
                                 const transport::Settings& broker) {
  if (!kind.make_publisher) throw std::invalid_argument(kind.name + " cannot publish");
  const PublishOptions defaults;
  PublishSettings settings{.topic = required(given, "topic"), .broker = broker};
  auto& options = settings.options;
  options.window = static_cast<int>(given.number("window", 1, 10'000, defaults.window));
  options.timeout = given.duration("timeout", 100ms, 10min, defaults.timeout);
  options.first_probe = given.duration("first_probe", 1ms, 1h, defaults.first_probe);
  options.longest_probe = given.duration("longest_probe", 1ms, 1h, defaults.longest_probe);
  options.source = given.text("source");
  if (given.find("max_attempts")) {
    options.max_attempts = static_cast<int>(given.number("max_attempts", 1, 1'000, 1));
  }
  if (const auto word = given.find("on_stream_failure")) {
    options.on_stream_failure = stream_failure_of(*word);
  }
  if (options.longest_probe < options.first_probe) {
    throw std::invalid_argument("longest_probe must not be less than first_probe");
  }
  static_cast<void>(kind.make_publisher(broker));
  return settings;
}

ConsumeSettings consume_settings(const transport::Kind& kind, const transport::Settings& given,
                                 const transport::Settings& broker) {
  if (!kind.make_consumer) throw std::invalid_argument(kind.name + " cannot consume");
  ConsumeSettings settings{.broker = broker};
  auto& options = settings.options;
  options.source = required(given, "source");
  options.topic = given.find("topic");
  options.prefetch = static_cast<int>(given.number("prefetch", 1, 10'000, options.prefetch));
  static_cast<void>(kind.make_consumer(broker));
  return settings;
}

void add_transports(const TransportSettings& settings, Platform& platform) {
  for (const auto& [topic, broker, options] : settings.publish) {
    platform.publish(topic, transport::kind_of(broker.url).make_publisher(broker), options);
  }
  for (const auto& [broker, options] : settings.consume) {
    platform.consume(transport::kind_of(broker.url).make_consumer(broker), options);
  }
}

}  // namespace dovetail::config

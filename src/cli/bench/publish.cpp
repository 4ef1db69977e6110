// dovetail bench publish: a backlog through a route whose broker confirms at once, compared with
// handlers that do nothing.
#include <algorithm>
#include <memory>

#include "cli/bench/drained.hpp"

namespace dovetail::cli::bench {
namespace {

constexpr int rounds = 3;
constexpr int most_window = 10'000;

/// A broker that takes no time.
class NoBroker final : public Publisher {
 public:
  [[nodiscard]] std::string kind() const override { return "none"; }
  [[nodiscard]] std::string address() const override { return "none"; }
  [[nodiscard]] std::vector<PublishOutcome> publish(std::span<const Message> messages,
                                                    const TransportCall& /*call*/) override {
    return std::vector<PublishOutcome>(messages.size(),
                                       PublishOutcome{.result = PublishResult::confirmed});
  }
  void probe(const TransportCall& /*call*/) override {}
};

}  // namespace

/// In turns, and the best of each: both meet the same state of the machine.
Findings publish(const Settings& settings, const Progress& progress) {
  const auto load_all = [&](Platform& platform) { load(platform, settings, [](double) {}); };
  // As many messages as a dispatcher holds.
  const int window = std::min(most_window, 4 * settings.platform.worker.batch_size);
  const auto route = [&](Platform& platform) {
    platform.publish(topic, std::make_shared<NoBroker>(), {.window = window});
  };
  double plain = 0;
  double routed = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto silent = [](double) {};
    const auto handled = seconds_to_drain(settings, settings.messages, load_all, silent);
    const auto published = seconds_to_drain(settings, settings.messages, load_all, route, silent);
    plain = std::max(plain, settings.messages / handled);
    routed = std::max(routed, settings.messages / published);
    progress(static_cast<double>(round + 1) / rounds);
  }
  Findings findings{
      rate("publish", "handlers that do nothing, " + described(settings), settings.messages,
           settings.messages / plain),
      rate("publish", "a broker that confirms at once, window " + std::to_string(window),
           settings.messages, settings.messages / routed)};
  findings.back().figures["of_handlers"] = routed / plain;
  return findings;
}

}  // namespace dovetail::cli::bench

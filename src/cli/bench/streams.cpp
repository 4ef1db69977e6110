// dovetail bench streams: a backlog of ordered messages, compared with one without an order.
#include <algorithm>
#include <array>

#include "cli/bench/drained.hpp"

namespace dovetail::cli::bench {
namespace {

struct Shape {
  const char* name;
  int streams;  ///< Zero: messages without a stream.
};

/// Enqueues the messages of the streams in turns, as many producers would.
void load_streams(Platform& platform, const Settings& settings, int streams) {
  std::vector<EnqueueRequest> requests;
  for (int i = 0; i < settings.messages; ++i) {
    EnqueueRequest request{.topic = topic, .payload = payload(i)};
    if (streams > 0) request.stream = "stream-" + std::to_string(i % streams);
    requests.push_back(std::move(request));
    if (static_cast<int>(requests.size()) < settings.bulk_size && i + 1 < settings.messages)
      continue;
    platform.outbox().enqueue_many(requests);
    requests.clear();
  }
}

}  // namespace

Findings streams(const Settings& settings, const Progress& progress) {
  const std::array shapes{Shape{"no streams", 0}, Shape{"1,000 streams", 1'000},
                          Shape{"one stream", 1},
                          Shape{"2 messages per stream", std::max(1, settings.messages / 2)}};
  Findings findings;
  double unordered = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto& shape = shapes[i];
    const auto seconds = seconds_to_drain(
        settings, settings.messages,
        [&](Platform& platform) { load_streams(platform, settings, shape.streams); },
        [&](double share) {
          progress((static_cast<double>(i) + share) / static_cast<double>(shapes.size()));
        });
    const auto per_second = settings.messages / seconds;
    if (shape.streams == 0) unordered = per_second;
    auto finding = rate("streams", std::string{shape.name} + ", " + described(settings),
                        settings.messages, seconds);
    finding.figures["of_unordered"] = per_second / unordered;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace dovetail::cli::bench

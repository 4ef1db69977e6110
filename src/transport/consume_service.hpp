// A source as a service: it fetches messages of a broker, stores them in the inbox, and then
// acknowledges them.
//
// A thread repeats: fetch, one transaction for the whole batch, ack. If the database is down, the
// messages are given back. If the broker is down, fetch() is tried again with a backoff.
//
// Threads: start() once; stop() from one thread at a time; the rest from any.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "component/connects.hpp"
#include "component/service.hpp"
#include "inbox/access.hpp"
#include "runtime/node.hpp"
#include "transport/reports.hpp"

namespace dovetail::transport {

struct Source {
  std::shared_ptr<Consumer> consumer{};
  ConsumeOptions options{};
};

/// Throws std::invalid_argument or std::out_of_range for values that cannot work.
void require_source(const Source& source);

class ConsumeService final : public component::Service, public component::Connects, public Reports {
 public:
  /// Requires a checked source.
  ConsumeService(runtime::Node& node, Inbox& inbox, Source source);
  ConsumeService(const ConsumeService&) = delete;
  ConsumeService& operator=(const ConsumeService&) = delete;
  ~ConsumeService() override;

  [[nodiscard]] std::string name() const override { return "consume " + source_.options.source; }
  [[nodiscard]] std::size_t connections() const override { return 1; }
  void start() override;
  void request_stop() override;
  /// The batch under way is stored until `deadline`. Otherwise it is given back. Returns false if a
  /// call of the Consumer does not end.
  bool stop(MonoTime deadline) override;
  void cut_off() override;
  [[nodiscard]] component::ServiceHealth health() const override;
  [[nodiscard]] std::vector<component::Loop> loops() const override;
  [[nodiscard]] std::optional<std::string> outage() const override;
  [[nodiscard]] TransportInfo info() const override;

 private:
  void run();
  /// Returns nullopt if the broker is down.
  [[nodiscard]] std::optional<std::vector<IncomingMessage>> fetch();
  void take_in(std::vector<IncomingMessage> messages);
  [[nodiscard]] std::vector<InboxEnqueued> store(std::span<const inbox::Arrival> arrivals);
  void ack(std::span<const std::uint64_t> tags);
  void give_back(std::span<const std::uint64_t> tags);
  void note_stored(std::span<const inbox::Arrival> arrivals,
                   std::span<const InboxEnqueued> answers);
  void note_broker(const std::optional<std::string>& problem);
  void note_database(const std::exception* error);
  void count(std::string_view result, std::uint64_t number) const;
  /// Waits before the next attempt. `failures` in a row.
  void pause(int failures);
  [[nodiscard]] TransportCall call(std::chrono::milliseconds limit, const std::stop_token& stop);

  [[nodiscard]] Clock& clock() const { return database_.clock(); }

  const Source source_;
  storage::Database& database_;
  Inbox& inbox_;
  const Logger log_;
  const Metrics metrics_;
  core::LoopProgress progress_;
  std::jthread thread_;
  std::stop_source ends_;   // no more fetches
  std::stop_source calls_;  // ends the other calls of the Consumer, and of the database

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable_any ended_changed_;
  bool ended_ = false;
  component::ServiceHealth health_;  // of the database
  MonoTime failing_since_{};
  std::optional<std::string> broker_problem_;
  MonoTime broker_since_{};
  int broker_failures_ = 0;
  std::uint64_t stored_ = 0;
  std::uint64_t duplicates_ = 0;
  std::uint64_t dead_ = 0;
  std::size_t fetched_ = 0;  // messages that are not stored yet
};

}  // namespace dovetail::transport

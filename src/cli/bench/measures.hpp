// The measures of `dovetail bench`. Each uses the public interface of the library, on a database of
// the user.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/cli.hpp"

namespace dovetail::cli::bench {

struct Settings {
  std::string url;
  PlatformOptions platform;
  int messages = 200'000;
  double seconds = 5;       ///< The length of a measure that runs for a given time.
  int connections = 8;      ///< enqueue: connections.
  int callers = 0;          ///< enqueue: threads; 0: as many as connections.
  int bulk_size = 5'000;    ///< Messages per call of enqueue_many.
  std::string beside;       ///< snapshot: a database without one. Empty: the same one, before it.
  bool preloaded = false;   ///< drain: the messages are stored already.
  int foreign = 1'000'000;  ///< foreign: messages of a topic that the worker does not handle.
  int databases = 200;      ///< group: databases of the group.
  int busy = 5;             ///< group: databases that have messages.
};

/// Called with the progress of a measure: 0 to 1.
using Progress = std::function<void(double)>;

/// One line of the answer.
struct Finding {
  std::string measure;
  std::string setting;
  std::string result;              ///< For people.
  nlohmann::ordered_json figures;  ///< For programs.
};
using Findings = std::vector<Finding>;

/// One message per call, from several threads.
Findings enqueue(const Settings& settings, const Progress& progress);
/// Many messages per call, from two threads.
Findings bulk(const Settings& settings, const Progress& progress);
/// A backlog through the dispatcher and a handler that does nothing, until the last ack is written.
Findings drain(const Settings& settings, const Progress& progress);
/// The time from just before enqueue() to the start of the handler, at 20 messages per second.
Findings latency(const Settings& settings, const Progress& progress);
/// One join whose steps several workers ack, and the time from the last step of a join to its
/// continuation.
Findings joins(const Settings& settings, const Progress& progress);
/// A round of a fan-out whose shards are new, one whose shards all wait, and one whose shards are
/// due again. Each is compared with a bulk enqueue of the same number of messages. Also the memory
/// of a round.
Findings fanout(const Settings& settings, const Progress& progress);
/// The pages that one claim reads, with 1 thousand, 100 thousand and 1 million messages waiting.
/// PostgreSQL only.
Findings claims(const Settings& settings, const Progress& progress);
/// Messages are enqueued and handled at the same time, without and with another transaction that
/// holds an old snapshot. PostgreSQL only.
Findings snapshot(const Settings& settings, const Progress& progress);
/// A worker's own topic with and without messages of a foreign topic at the front of the queue: the
/// rate at which a backlog is drained, and the time from enqueue() to the handler's start.
Findings foreign(const Settings& settings, const Progress& progress);
/// Handlers that write through their transaction, compared with handlers that do not. Each has 5 ms
/// of other work.
Findings transactions(const Settings& settings, const Progress& progress);
/// Many databases in one process: the rate of a few busy databases compared with a single one, the
/// pickup beside databases in trouble, and the cost of an idle group. Takes minutes, and creates
/// databases.
Findings group(const Settings& settings, const Progress& progress);
/// A backlog of messages without streams, of many streams, of one stream, and of two messages per
/// stream.
Findings streams(const Settings& settings, const Progress& progress);
/// A backlog through a route whose broker confirms at once, compared with handlers that do nothing.
Findings publish(const Settings& settings, const Progress& progress);
/// The cost of an idle worker.
Findings idle(const Settings& settings, const Progress& progress);

[[nodiscard]] bool is_postgres(const std::string& url);

}  // namespace dovetail::cli::bench

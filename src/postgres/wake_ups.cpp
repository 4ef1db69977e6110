// Wake-ups: this process tells others of new messages, and listens to them.
#include <set>

#include "core/random.hpp"
#include "dovetail/backoff.hpp"
#include "postgres/database.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::postgres {

std::string Database::channel() const {
  return "dovetail_" + options_.schema;  // the name that the SQL function _wake uses
}

void Database::wake(const storage::WriteSession& session) {
  for (const auto& each : session.wake_ups()) {
    bells().ring(each.queue);
    if (!each.announced) notifier_.announce(each.queue);
  }
}

/// Makes one attempt: workers that miss the hint find the message by polling.
void Database::notify(const Notifier::Queues& queues, const std::stop_token& stop) {
  auto connection = service_pool_.acquire(stop, std::chrono::steady_clock::now());
  for (const auto& queue : queues) {
    Params params;
    params.add(std::string_view{channel()}).add(std::string_view{queue});
    // A hint does not have to be on disk before it is sent. Without that wait it arrives some
    // milliseconds earlier.
    connection->run(
        {.name = "notify",
         .text = "select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)",
         .params = &params},
        stop);
  }
}

/// Rings the bell that the payload of a NOTIFY names; see the SQL function _wake.
void Database::ring(std::string_view payload) {
  if (!payload.empty()) return bells().ring(payload);
  // Joins, and processes of an earlier version, send no queue name.
  bells().ring(storage::queue_names::outbox);
  bells().ring(storage::queue_names::inbox);
}

void Database::listen(const std::stop_token& stop, const std::function<void(bool)>& connected) {
  if (options_.pooled)
    return;  // a pooler in transaction mode gives the connection to other clients
  const FullJitterBackoff backoff;
  for (int tries = 0; !stop.stop_requested(); ++tries) {
    try {
      listen_once(stop, [&](bool hears) {
        if (hears) tries = 0;
        connected(hears);
      });
    } catch (const std::exception& error) {
      if (stop.stop_requested()) return;
      connected(false);
      options_.log.write(LogLevel::warn, "storage.listener_lost",
                         {{"store", name_}, {"error", error.what()}});
    }
    // The clock of the system: a test that stops the time still needs its listener.
    system_clock()->sleep_for(backoff.delay(tries, core::random_unit()), stop);
  }
}

void Database::listen_once(const std::stop_token& stop,
                           const std::function<void(bool)>& connected) {
  const auto connection = connect(
      stop, std::chrono::steady_clock::now() + std::max(connect_timeout_, least_connect_timeout));
  const std::string text =
      "listen \"" + channel() + '"';  // the name of the schema has been checked: it has no quotes
  connection->run({.name = "listen", .text = text}, stop);
  connected(true);
  bells().ring_all();  // messages may have arrived before we listened
  while (!stop.stop_requested()) {
    std::set<std::string, std::less<>> heard;
    connection->wait_for_notification(std::chrono::steady_clock::now() + std::chrono::minutes{1},
                                      stop,
                                      [&](std::string_view payload) { heard.emplace(payload); });
    for (const auto& payload : heard) ring(payload);
  }
}

}  // namespace dovetail::postgres

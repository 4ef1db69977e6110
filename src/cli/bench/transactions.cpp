// dovetail bench transactions: the cost of exactly-once for a handler.
#include <algorithm>
#include <atomic>
#include <thread>

#include "cli/bench/tools.hpp"

namespace dovetail::cli::bench {
namespace {

using std::chrono::milliseconds;

/// The work of a handler apart from the database, such as a call of another service.
constexpr milliseconds handler_work{5};
constexpr int most_transactions = 4'000;
/// The lowest accepted ratio: handlers with transactions run concurrently, like other handlers.
constexpr double transactions_bar = 0.8;
constexpr const char* transaction_topic = "bench.transaction";

/// Messages per second, from the start of the worker to the last ack.
double handle_all(const Settings& settings, int messages, const HandlerFunction& handler,
                  const Progress& progress) {
  auto platform = open(settings);
  std::vector<EnqueueRequest> requests(static_cast<std::size_t>(messages),
                                       {.topic = transaction_topic});
  platform.outbox().enqueue_many(requests);
  std::atomic<int> handled{0};
  platform.on(transaction_topic, [&](const Message& message, HandlerContext& context) {
    handler(message, context);
    ++handled;
  });
  const auto start = std::chrono::steady_clock::now();
  platform.start();
  const std::vector<std::string> topics{transaction_topic};
  while (handled < messages || platform.outbox().has_work(topics)) {
    std::this_thread::sleep_for(milliseconds{5});
    progress(static_cast<double>(handled) / messages);
  }
  const auto seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  platform.stop();
  return messages / seconds;
}

}  // namespace

Findings transactions(const Settings& settings, const Progress& progress) {
  const auto messages = std::min(settings.messages, most_transactions);
  const auto table = is_postgres(settings.url)
                         ? "\"" + settings.platform.schema + "\".bench_effect"
                         : "\"" + settings.platform.schema + "_bench_effect\"";
  {
    auto platform = open(settings);
    auto transaction = platform.begin();
    transaction.execute("create table " + table + " (n integer)");
    transaction.commit();
  }
  const auto plain = handle_all(
      settings, messages,
      [](const Message&, HandlerContext&) { std::this_thread::sleep_for(handler_work); },
      [&](double share) { progress(share / 2); });
  const auto insert = "insert into " + table + " values (1)";
  const auto with = handle_all(
      settings, messages,
      [&](const Message&, HandlerContext& context) {
        std::this_thread::sleep_for(handler_work);
        context.transaction().execute(insert);
      },
      [&](double share) { progress((1 + share) / 2); });
  const auto ratio = with / plain;
  return {{"handlers with transactions",
           "5 ms of work, then a row with the ack",
           with_thousands(with) + " messages/s, " + with_thousands(plain) +
               " without: " + judged(ratio, transactions_bar),
           {{"messages", messages},
            {"per_second", with},
            {"plain_per_second", plain},
            {"ratio", ratio},
            {"bar", transactions_bar},
            {"reached", ratio >= transactions_bar}}}};
}

}  // namespace dovetail::cli::bench

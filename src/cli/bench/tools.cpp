#include "cli/bench/tools.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <sstream>
#include <thread>

namespace dovetail::cli::bench {
namespace {

using nlohmann::ordered_json;

double percentile(const std::vector<double>& sorted, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size() - 1, place)];
}

}  // namespace

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

Steady::time_point in_seconds(double seconds) {
  return Steady::now() +
         std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(seconds));
}

std::string with_thousands(double value) {
  auto digits = std::to_string(std::llround(value));
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), ",");
  }
  return digits;
}

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(digits);
  out << value;
  return out.str();
}

std::string judged(double ratio, double bar) {
  return fixed(ratio, 2) + " times (bar " + fixed(bar, 2) +
         (ratio >= bar ? ": reached)" : ": missed)");
}

std::string payload(std::int64_t number) {
  auto text = R"({"order":)" + std::to_string(number) + R"(,"note":")";
  text.append(98 - text.size(), 'x');
  return text + "\"}";
}

std::int64_t number_in(const std::string& payload) {
  return std::stoll(payload.substr(payload.find(':') + 1));
}

Platform open(const Settings& settings) {
  auto options = settings.platform;
  options.deploy_schema = true;
  return Platform::open(settings.url, options);
}

bool is_postgres(const std::string& url) {
  return url.starts_with("postgres");
}

std::string described(const Settings& settings) {
  return "batches of " + std::to_string(settings.platform.worker.batch_size) +
         (settings.platform.outbox.retain_done.count() > 0 ? ", history kept" : ", no history");
}

Rows ask(Platform& platform, const std::string& sql) {
  auto transaction = platform.begin();
  auto rows = transaction.query(sql);
  transaction.commit();
  return rows;
}

void on_threads(int count, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

Finding load(Platform& platform, const Settings& settings, const Progress& progress) {
  std::vector<EnqueueRequest> requests;
  requests.reserve(static_cast<std::size_t>(settings.messages));
  for (int i = 0; i < settings.messages; ++i)
    requests.push_back({.topic = topic, .payload = payload(i)});
  const auto portion = static_cast<std::size_t>(settings.bulk_size);
  std::atomic<std::size_t> next{0};
  const auto start = Steady::now();
  on_threads(2, [&](int /*thread*/) {
    for (;;) {
      const auto begin = next.fetch_add(portion);
      if (begin >= requests.size()) return;
      const auto some =
          std::span{requests}.subspan(begin, std::min(portion, requests.size() - begin));
      platform.outbox().enqueue_many(some);
      progress(static_cast<double>(begin) / settings.messages);
    }
  });
  return rate("bulk enqueue", std::to_string(settings.bulk_size) + " per call", settings.messages,
              seconds_since(start));
}

Finding rate(std::string measure, std::string setting, std::int64_t messages, double seconds) {
  const auto per_second = static_cast<double>(messages) / seconds;
  return {std::move(measure), std::move(setting), with_thousands(per_second) + " messages/s",
          ordered_json{{"messages", messages}, {"seconds", seconds}, {"per_second", per_second}}};
}

Finding times(std::string measure, std::string setting, const std::vector<double>& samples) {
  auto sorted = samples;
  std::ranges::sort(sorted);
  const auto p50 = percentile(sorted, 0.50);
  const auto p95 = percentile(sorted, 0.95);
  const auto p99 = percentile(sorted, 0.99);
  return {std::move(measure), std::move(setting),
          "p50 " + fixed(p50, 2) + "  p95 " + fixed(p95, 2) + "  p99 " + fixed(p99, 2) + " ms",
          ordered_json{{"p50_ms", p50}, {"p95_ms", p95}, {"p99_ms", p99}, {"samples", samples}}};
}

double middle(std::vector<double> values) {
  std::ranges::sort(values);
  return percentile(values, 0.5);
}

}  // namespace dovetail::cli::bench

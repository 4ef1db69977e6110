#include "cli/bench/connection_sampler.hpp"

#include <algorithm>
#include <filesystem>

namespace dovetail::cli::bench {

std::size_t connections(const Settings& settings, Platform* watcher) {
  if (watcher != nullptr) {
    return static_cast<std::size_t>(
        ask(*watcher,
            "select count(*) from pg_stat_activity where datname like 'dovetail\\_bench\\_%' and "
            "datname <> current_database()")
            .at(0)
            .get<std::int64_t>(0));
  }
  const auto stem = std::filesystem::absolute(settings.url.substr(settings.url.find(':') + 1));
  std::size_t open = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(file, gone).string();
    if (!gone && target.starts_with(stem.string() + ".")) ++open;
  }
  return open;
}

ConnectionSampler::ConnectionSampler(const Settings& settings)
    : watcher_(is_postgres(settings.url) ? std::optional{open(settings)} : std::nullopt),
      thread_([this, &settings](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          most_ = std::max(most_.load(), connections(settings, watcher_ ? &*watcher_ : nullptr));
          std::this_thread::sleep_for(std::chrono::milliseconds{20});
        }
      }) {}

}  // namespace dovetail::cli::bench

// Planning of runs: the results of one transaction, and the jobs that this process cannot
// understand.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/schedule.hpp"
#include "queue/enqueued_count.hpp"

namespace dovetail {

namespace schedule {

inline constexpr std::string_view job_header = "dovetail-job";
inline constexpr std::string_view run_header = "dovetail-job-run";
inline constexpr std::string_view time_header = "dovetail-scheduled-time";

/// A job that cannot be understood is retried after this time, or when it is changed.
inline constexpr std::chrono::minutes broken_pause{10};

}  // namespace schedule

struct Jobs::Progress {
  struct Skipped {
    std::string job;
    WallTime time;
  };
  struct Failed {
    Job job;
    std::string error;
    bool here_only = false;  ///< Another process may understand it.
  };
  std::size_t started = 0;
  queue::EnqueuedCount enqueued{};
  bool more = false;  ///< Another transaction follows at once.
  std::vector<Skipped> skipped{};
  std::vector<Failed> failed{};
};

/// Jobs that this process cannot understand, for example because this system lacks their time zone.
/// Another process may understand them, so their due time in the database does not change.
struct Jobs::Broken {
  struct Entry {
    MonoTime until;
    WallTime updated_at;  ///< A job that was changed since then is retried.
  };
  std::mutex mutex;
  std::map<JobId, Entry> entries;

  bool contains(const Job& job, MonoTime now) {
    const std::lock_guard lock(mutex);
    const auto found = entries.find(job.id);
    if (found == entries.end()) return false;
    if (found->second.until > now && found->second.updated_at == job.updated_at) return true;
    entries.erase(found);
    return false;
  }
  void add(const Job& job, MonoTime now) {
    const std::lock_guard lock(mutex);
    entries[job.id] = {now + schedule::broken_pause, job.updated_at};
  }
  int count() {
    const std::lock_guard lock(mutex);
    return static_cast<int>(entries.size());
  }
};

}  // namespace dovetail

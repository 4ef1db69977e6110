// Counts for gauges that no other role has. Each call reads a limited number of rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dovetail/clock.hpp"
#include "dovetail/join.hpp"
#include "storage/session.hpp"

namespace dovetail::storage {

struct JoinCount {
  JoinStatus status = JoinStatus::pending;
  std::int64_t count = 0;
};

/// The end of a job's last successful run. Absent: none of its latest runs was successful.
struct JobSuccess {
  std::string job;
  std::optional<WallTime> ended_at;
};

class SampleStore {
 public:
  virtual ~SampleStore() = default;

  /// The number of joins of each status. Counting stops at `most`.
  virtual std::vector<JoinCount> joins(ReadSession& session, int most) = 0;
  /// The first `most` jobs by name.
  virtual std::vector<JobSuccess> jobs(ReadSession& session, int most) = 0;
};

}  // namespace dovetail::storage

// The schema that `dovetail bench` works in: it creates one, and drops it at the end.
#pragma once

#include "cli/bench/measures.hpp"

namespace dovetail::cli::bench {

/// Creates the schema of `settings`, and a table in it that marks it as ours. Throws
/// std::invalid_argument when anything of that name exists already.
void create_schema(const Settings& settings);
/// Throws std::invalid_argument when the schema was not created by create_schema().
void require_created(const Settings& settings);
/// Drops the schema and everything in it, if it was created by create_schema().
void drop_schema(const Settings& settings);

/// A schema that exists as long as this object does.
class OwnSchema {
 public:
  explicit OwnSchema(Settings settings);
  OwnSchema(const OwnSchema&) = delete;
  OwnSchema& operator=(const OwnSchema&) = delete;
  ~OwnSchema();

 private:
  Settings settings_;
};

}  // namespace dovetail::cli::bench

// The history of work as the runtime sees it: flushes, folds and deletes.
#pragma once

#include <memory>
#include <mutex>

#include "component/component.hpp"
#include "dovetail/history.hpp"
#include "history/collector.hpp"
#include "storage/backlog_store.hpp"
#include "storage/rollup_store.hpp"

namespace dovetail::history {

class Component final : public component::Component {
 public:
  explicit Component(const component::Environment& environment);

  /// Call it once, before the chores are asked for. Null: this process counts nothing.
  void collect_from(std::shared_ptr<Collector> collector) { collector_ = std::move(collector); }
  std::vector<component::Chore> chores() override;

  History history;

 private:
  /// Stores the counts so far. A flush that failed is repeated with its number and its counts.
  void flush(const std::stop_token& stop);
  void fold(const std::stop_token& stop);
  void purge(const std::stop_token& stop);
  /// Stores the backlog, unless another process has stored that of the current 10 s.
  void sample_backlog(const std::stop_token& stop);

  storage::Database& database_;
  storage::BacklogStore& backlog_;
  storage::RollupStore& store_;
  std::shared_ptr<Collector> collector_;
  std::mutex mutex_;  // guards the next members
  const Uuid source_ = Uuid::random();
  std::int64_t number_ = 0;
  std::vector<Collected> pending_;  // of the flush with this number
  bool is_active_ = true;           // there was work or a backlog in the last interval
  int calm_intervals_ = 0;
};

std::unique_ptr<component::Component> make_component(const component::Environment& environment);

}  // namespace dovetail::history

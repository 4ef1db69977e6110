#include "sqlite/file_watch.hpp"

#include <utility>

#include "dovetail/error.hpp"
#include "storage/queue_names.hpp"

namespace dovetail::sqlite {
namespace {

std::int64_t data_version(Connection& connection) {
  auto cursor = connection.prepare("pragma data_version");
  cursor.step();
  return cursor.integer(0);
}

}  // namespace

FileWatch::FileWatch(const std::string& path, const storage::StatementTexts& texts,
                     const Clock& clock, std::chrono::milliseconds busy_timeout)
    : texts_(texts),
      clock_(clock),
      connection_(Connection::open(path, Connection::Mode::read_only, busy_timeout)),
      version_(data_version(*connection_)),
      messages_{{sql::outbox.name, &sql::outbox.next_due_step_watch},
                {sql::inbox.name, &sql::inbox.next_due_step_watch}},
      times_{{storage::queue_names::timers, sql::columns::schedule_next_due_step_watch::timers_at},
             {storage::queue_names::jobs, sql::columns::schedule_next_due_step_watch::jobs_at}} {}

bool FileWatch::has_changed() {
  const auto version = data_version(*connection_);
  return std::exchange(version_, version) != version;
}

void FileWatch::look_at_messages(std::vector<std::string_view>& queues) {
  using Column = sql::columns::next_due_step_watch;
  for (auto& each : messages_) {
    const auto seen = each;
    auto cursor = connection_->run(texts_, *each.statement);
    cursor.bind(clock_.wall()).step();
    each.newest = cursor.is_null(Column::newest) ? 0 : cursor.integer(Column::newest);
    each.due = cursor.time_or_null(Column::due_at);
    const bool earlier = each.due && (!seen.due || *each.due < *seen.due);
    if (each.newest > seen.newest || earlier) queues.push_back(each.queue);
  }
}

void FileWatch::look_at_events(std::vector<std::string_view>& queues) {
  auto cursor = connection_->run(texts_, sql::event_stamp);
  cursor.step();
  const auto last = cursor.integer(sql::columns::event_stamp::head);
  if (std::exchange(last_event_, last) != last) queues.push_back(storage::queue_names::event_feed);
}

void FileWatch::look_at_times(std::vector<std::string_view>& queues) {
  auto cursor = connection_->run(texts_, sql::schedule_next_due_step_watch);
  cursor.bind(clock_.wall()).step();
  for (auto& each : times_) {
    const auto due = cursor.time_or_null(each.column);
    if (std::exchange(each.due, due) != due) queues.push_back(each.queue);
  }
}

std::vector<std::string_view> FileWatch::look() {
  std::vector<std::string_view> queues;
  for (const auto part :
       {&FileWatch::look_at_messages, &FileWatch::look_at_events, &FileWatch::look_at_times}) {
    try {
      (this->*part)(queues);
    } catch (const Error&) {
      continue;  // these tables were removed; the other tables are still watched
    }
  }
  return queues;
}

}  // namespace dovetail::sqlite

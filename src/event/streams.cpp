// Streams of events: their ends and their snapshots.
#include <stdexcept>

#include "core/require.hpp"
#include "dovetail/event.hpp"
#include "event/rules.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/event_store.hpp"
#include "storage/transaction_access.hpp"

namespace dovetail {

using event::require_stream_key;
using storage::session_of;

// --- values

ExpectedVersion ExpectedVersion::exactly(std::int64_t version) {
  if (version < 0) throw std::out_of_range("version must not be negative");
  return ExpectedVersion{version};
}

std::string ExpectedVersion::to_string() const {
  switch (value_) {
    case 0:
      return "no_stream";
    case -1:
      return "any";
    case -2:
      return "stream_exists";
    default:
      return std::to_string(value_);
  }
}

VersionConflict::VersionConflict(std::string stream, ExpectedVersion expected, std::int64_t actual)
    : std::runtime_error("stream " + stream + ": expected version " + expected.to_string() +
                         ", actual version " + std::to_string(actual)),
      stream_(std::move(stream)),
      expected_(expected),
      actual_(actual) {}

StreamClosed::StreamClosed(std::string stream)
    : std::runtime_error("stream " + stream + " is closed"), stream_(std::move(stream)) {}

// --- streams

std::optional<EventStream> Events::find(std::string_view stream) {
  require_stream_key(stream);
  std::optional<EventStream> found;
  database_->read([&](storage::ReadSession& session) { found = store_->find(session, stream); });
  return found;
}

std::vector<EventStream> Events::streams(const EventStreamPage& page) {
  core::require_batch_size("size", page.size);
  core::require_text("prefix", page.prefix);
  std::vector<EventStream> found;
  database_->read([&](storage::ReadSession& session) { found = store_->streams(session, page); });
  return found;
}

bool Events::close(std::string_view stream) {
  require_stream_key(stream);
  return storage::confirmed_write(
      *database_, {.single_statement = true},
      [&](storage::WriteSession& session) { return store_->close(session, stream); });
}

bool Events::close(Transaction& transaction, std::string_view stream) {
  require_stream_key(stream);
  return store_->close(session_of(transaction), stream);
}

std::size_t Events::truncate(std::string_view stream, std::int64_t before) {
  require_stream_key(stream);
  const auto count = storage::confirmed_answer<std::size_t>(
      *database_, {},
      [&](storage::WriteSession& session, const storage::Attempt&) -> std::optional<std::size_t> {
        const auto deleted = store_->truncate(session, stream, before);
        return deleted > 0 ? std::optional{deleted} : std::nullopt;
      });
  return count.value_or(0);
}

std::size_t Events::truncate(Transaction& transaction, std::string_view stream,
                             std::int64_t before) {
  require_stream_key(stream);
  return store_->truncate(session_of(transaction), stream, before);
}

bool Events::remove(std::string_view stream) {
  require_stream_key(stream);
  return storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
    return store_->remove(session, stream);
  });
}

bool Events::remove(Transaction& transaction, std::string_view stream) {
  require_stream_key(stream);
  return store_->remove(session_of(transaction), stream);
}

// --- snapshots

bool Events::store_snapshot(const EventSnapshot& snapshot) {
  require_stream_key(snapshot.stream);
  event::require_snapshot_name(snapshot.name);
  core::require_text("data", snapshot.data);
  if (snapshot.version < 1) throw std::out_of_range("version must be 1 or more");
  return storage::confirmed_write(
      *database_, {.single_statement = true},
      [&](storage::WriteSession& session) { return store_->store_snapshot(session, snapshot); });
}

std::optional<EventSnapshot> Events::find_snapshot(std::string_view stream, std::string_view name,
                                                   int schema) {
  require_stream_key(stream);
  event::require_snapshot_name(name);
  std::optional<EventSnapshot> found;
  database_->read([&](storage::ReadSession& session) {
    found = store_->find_snapshot(session, stream, name, schema);
  });
  return found;
}

}  // namespace dovetail

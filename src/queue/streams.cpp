// The operation of streams.
#include "dovetail/stream.hpp"

#include "core/require.hpp"
#include "dovetail/queue.hpp"
#include "queue/new_messages.hpp"
#include "storage/confirmed_write.hpp"
#include "storage/database.hpp"
#include "storage/queue_store.hpp"

namespace dovetail {

std::string_view to_string(StreamFailure failure) {
  switch (failure) {
    case StreamFailure::block:
      return "block";
    case StreamFailure::park:
      return "park";
    case StreamFailure::skip_order:
      return "skip_order";
  }
  return "unknown";
}

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::stored:
      return "stored";
    case Stage::event_stored:
      return "event_stored";
    case Stage::published:
      return "published";
    case Stage::receptor_processed:
      return "receptor_processed";
    case Stage::perspective_processed:
      return "perspective_processed";
  }
  return "unknown";
}

std::string_view to_string(StreamState state) {
  switch (state) {
    case StreamState::ready:
      return "ready";
    case StreamState::leased:
      return "leased";
    case StreamState::blocked:
      return "blocked";
  }
  return "unknown";
}

std::vector<StreamInfo> WorkQueue::streams(const StreamPage& page) {
  core::require_batch_size("size", page.size);
  if (page.after) queue::require_stream(*page.after);
  std::vector<StreamInfo> found;
  database_->read(
      [&](storage::ReadSession& session) { found = operator_->streams(session, page); });
  return found;
}

std::optional<StreamInfo> WorkQueue::find_stream(std::string_view stream) {
  queue::require_stream(stream);
  std::optional<StreamInfo> found;
  database_->read(
      [&](storage::ReadSession& session) { found = operator_->find_stream(session, stream); });
  return found;
}

bool WorkQueue::resume_stream(std::string_view stream) {
  queue::require_stream(stream);
  const bool resumed =
      storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
        session.wakes(name_);
        return operator_->resume_stream(session, stream);
      });
  log_.write(LogLevel::info, event("stream_resumed"),
             {{"store", database_->name()}, {"stream", stream}, {"was_blocked", resumed}});
  return resumed;
}

bool WorkQueue::skip_stream(std::string_view stream) {
  queue::require_stream(stream);
  const bool skipped =
      storage::confirmed_write(*database_, {}, [&](storage::WriteSession& session) {
        session.wakes(name_);
        return operator_->skip_stream(session, stream);
      });
  log_.write(LogLevel::info, event("stream_skipped"),
             {{"store", database_->name()}, {"stream", stream}, {"was_blocked", skipped}});
  return skipped;
}

}  // namespace dovetail

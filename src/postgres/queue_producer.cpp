#include "postgres/queue_producer.hpp"

#include <algorithm>

#include "postgres/queue_rows.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::size_t bulk_rows = 2'000;  // per statement
constexpr std::size_t copy_rows =
    20'000;  // per COPY: its setup costs as much as some thousand rows
constexpr std::size_t bulk_bytes = std::size_t{8} << 20;  // of payloads per statement
constexpr std::size_t overhead_per_row = 64;              // of a row, beside its texts; an estimate
constexpr std::size_t copy_from = 100;  // messages; for fewer, the round trips of COPY cost more

Params fresh_params(const storage::NewMessage& message) {
  Params params;
  params.add(message.id.uuid())
      .add(message.topic)
      .add(message.payload)
      .add(message.correlation_id)
      .add(message.due_at)
      .add(message.headers ? std::optional<std::string_view>{*message.headers} : std::nullopt)
      .add(message.expires_at)
      .add(std::int32_t{message.priority});
  return params;
}

Params enqueue_params(const storage::NewMessage& message, bool notify) {
  auto params = fresh_params(message);
  params.add(message.unique_key).add(notify).add(micros(message.delay)).add(message.stream);
  return params;
}

/// A column of many messages as an array, or NULL when no message uses it.
template <class Element, class Get>
void add_column(Params& params, std::span<const storage::NewMessage> messages, const Get& get) {
  std::vector<std::optional<Element>> column;
  column.reserve(messages.size());
  bool used = false;
  for (const auto& message : messages) {
    column.push_back(get(message));
    used = used || column.back().has_value();
  }
  if (used) {
    params.add(std::span<const std::optional<Element>>{column});
  } else {
    params.add(nullptr);
  }
}

/// Ids, topics and payloads.
Params plain_params(std::span<const storage::NewMessage> messages) {
  using Text = std::string_view;
  Params params;
  std::vector<Uuid> ids;
  ids.reserve(messages.size());
  for (const auto& message : messages) ids.push_back(message.id.uuid());
  params.add(std::span<const Uuid>{ids});
  add_column<Text>(params, messages, [](const auto& each) { return std::optional{each.topic}; });
  add_column<Text>(params, messages, [](const auto& each) { return std::optional{each.payload}; });
  return params;
}

Params bulk_params(std::span<const storage::NewMessage> messages, bool fresh, bool notify) {
  using Text = std::string_view;
  Params params;
  std::vector<Uuid> ids;
  std::vector<std::int64_t> priorities;
  ids.reserve(messages.size());
  priorities.reserve(messages.size());
  std::size_t bytes = 0;
  for (const auto& message : messages) {
    ids.push_back(message.id.uuid());
    priorities.push_back(message.priority);
    bytes += message.topic.size() + message.payload.size() + overhead_per_row;
  }
  params.reserve(bytes);
  params.add(std::span<const Uuid>{ids});
  add_column<Text>(params, messages, [](const auto& each) { return std::optional{each.topic}; });
  add_column<Text>(params, messages, [](const auto& each) { return std::optional{each.payload}; });
  add_column<Text>(params, messages, [](const auto& each) { return each.correlation_id; });
  add_column<WallTime>(params, messages, [](const auto& each) { return each.due_at; });
  add_column<Text>(params, messages, [](const auto& each) {
    return each.headers ? std::optional<Text>{*each.headers} : std::nullopt;
  });
  add_column<WallTime>(params, messages, [](const auto& each) { return each.expires_at; });
  if (std::ranges::any_of(priorities, [](std::int64_t priority) { return priority != 0; })) {
    params.add(std::span<const std::int64_t>{priorities});
  } else {
    params.add(nullptr);
  }
  add_column<Text>(params, messages, [](const auto& each) { return each.unique_key; });
  params.add(fresh).add(notify);
  add_column<std::int64_t>(params, messages, [](const auto& each) { return micros(each.delay); });
  add_column<Text>(params, messages, [](const auto& each) { return each.stream; });
  return params;
}

/// True for a message with a topic and a payload only, whose id cannot exist yet.
bool is_plain(const storage::NewMessage& message) {
  return message.fresh && !message.correlation_id && !message.due_at && !message.delay &&
         !message.headers && !message.expires_at && message.priority == 0 && !message.unique_key &&
         !message.stream;
}

void append_field(std::string& out, std::string_view bytes) {
  append_integer(out, static_cast<std::int32_t>(bytes.size()));
  out += bytes;
}

/// The messages in the binary format of COPY.
std::string copy_data(std::span<const storage::NewMessage> messages, WallTime now) {
  std::string data;
  std::size_t size = 0;
  for (const auto& message : messages)
    size += message.topic.size() + message.payload.size() + overhead_per_row;
  data.reserve(size + 32);
  data.append("PGCOPY\n\377\r\n\0", 11);
  append_integer(data, std::int32_t{0});  // flags
  append_integer(data, std::int32_t{0});  // length of the header extension
  const auto time = to_postgres_time(now);
  for (const auto& message : messages) {
    append_integer(data, std::int16_t{5});
    const auto& id = message.id.uuid().bytes();
    append_field(data, {reinterpret_cast<const char*>(id.data()), id.size()});
    append_field(data, message.topic);
    append_field(data, message.payload);
    for (int column = 0; column < 2; ++column) {
      append_integer(data, std::int32_t{sizeof time});
      append_integer(data, time);
    }
  }
  append_integer(data, std::int16_t{-1});
  return data;
}

/// The first messages that fit into one statement.
std::span<const storage::NewMessage> next_portion(std::span<const storage::NewMessage> messages,
                                                  std::size_t most) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < messages.size() && count < most && (count == 0 || bytes < bulk_bytes)) {
    bytes += messages[count++].payload.size();
  }
  return messages.first(count);
}

}  // namespace

// The commit of a borrowed transaction is not visible here. So the SQL function sends a NOTIFY,
// unless other messages have just arrived. In our own transactions the notifier sends it after the
// commit, or the statement does if nothing was announced for a while.
Enqueued QueueProducer::enqueue(storage::WriteSession& session,
                                const storage::NewMessage& message) {
  using Column = sql::columns::enqueue;
  auto& core = WriteSession::of(session);
  const bool plain = message.fresh && !message.unique_key;
  const bool announces = core.is_borrowed() || (plain && core.take_turn(sql_.name));
  bool stored = true;
  auto id = message.id;
  if (plain && !message.delay && !message.stream && !core.is_borrowed()) {
    core.run(texts_, announces ? sql_.enqueue_step_fresh_aloud : sql_.enqueue_step_fresh,
             fresh_params(message));
  } else {
    const auto result = core.run(texts_, sql_.enqueue, enqueue_params(message, announces));
    id = MessageId{result.uuid(0, Column::id)};
    stored = result.boolean(0, Column::stored);
  }
  if (stored) announces ? session.wakes_here(sql_.name) : session.wakes(sql_.name);
  return {id, stored};
}

void QueueProducer::copy(SessionCore& session, Messages messages) {
  const auto now = session.run(texts_, sql_.clock, {}).time(0, 0);
  while (!messages.empty()) {
    const auto portion = next_portion(messages, copy_rows);
    messages = messages.subspan(portion.size());
    session.copy_in(texts_, sql_.enqueue_many_step_copy, copy_data(portion, now));
  }
}

void QueueProducer::insert(SessionCore& session, Messages portion, bool fresh, bool notify,
                           std::vector<Enqueued>& answers) {
  using Column = sql::columns::enqueue_many;
  // The statement returns the messages that it did not store.
  const auto others = session.run(texts_, sql_.enqueue_many, bulk_params(portion, fresh, notify));
  const auto first = answers.size();
  for (const auto& message : portion) answers.emplace_back(message.id, true);
  for (int row = 0; row < others.rows(); ++row) {
    const auto place = first + static_cast<std::size_t>(others.integer(row, Column::place)) - 1;
    answers[place] = {MessageId{others.uuid(row, Column::existing_id)}, false};
  }
}

std::vector<Enqueued> QueueProducer::enqueue_many(storage::WriteSession& session,
                                                  std::span<const storage::NewMessage> messages,
                                                  bool repeated) {
  auto& core = WriteSession::of(session);
  std::vector<Enqueued> answers;
  answers.reserve(messages.size());
  if (messages.size() >= copy_from && !repeated && !core.is_borrowed() && !core.is_autocommit() &&
      std::ranges::all_of(messages, is_plain)) {
    copy(core, messages);
    session.wakes(sql_.name);
    for (const auto& message : messages) answers.emplace_back(message.id, true);
    return answers;
  }
  const bool fresh = !repeated && std::ranges::all_of(messages, &storage::NewMessage::fresh);
  const bool announces = core.is_borrowed() || core.take_turn(sql_.name);
  if (fresh && !announces && core.is_autocommit() && std::ranges::all_of(messages, is_plain)) {
    core.run(texts_, sql_.enqueue_many_step_fresh, plain_params(messages));
    session.wakes(sql_.name);
    for (const auto& message : messages) answers.emplace_back(message.id, true);
    return answers;
  }
  announces ? session.wakes_here(sql_.name) : session.wakes(sql_.name);
  while (!messages.empty()) {
    const auto portion = next_portion(messages, bulk_rows);
    messages = messages.subspan(portion.size());
    insert(core, portion, fresh, announces, answers);
  }
  return answers;
}

}  // namespace dovetail::postgres

#include "transport/consume_service.hpp"

#include <algorithm>
#include <condition_variable>
#include <stdexcept>
#include <utility>

#include "core/random.hpp"
#include "core/text.hpp"
#include "dovetail/backoff.hpp"
#include "dovetail/error.hpp"
#include "transport/incoming.hpp"

namespace dovetail::transport {
namespace {

using std::chrono::milliseconds;

/// How long a fetch waits for messages.
constexpr milliseconds fetch_wait{5'000};
/// The time limit of an ack.
constexpr milliseconds ack_patience{10'000};
/// A Consumer that returns nothing at once is not asked again at once.
constexpr milliseconds empty_pause{5};
constexpr FullJitterBackoff reconnect_backoff{.initial = milliseconds{100},
                                              .cap = milliseconds{30'000}};
/// How long a stopped source waits for the call under way after the deadline.
constexpr milliseconds consumer_patience{2'000};

/// True if a message of the batch may be the reason: the others can be stored without it.
bool blames_data(const Error& error) {
  const auto kind = error.kind();
  return kind == ErrorKind::constraint || kind == ErrorKind::invalid || kind == ErrorKind::other;
}

std::vector<std::uint64_t> tags_of(std::span<const IncomingMessage> messages) {
  std::vector<std::uint64_t> tags;
  tags.reserve(messages.size());
  for (const auto& each : messages) tags.push_back(each.tag);
  return tags;
}

}  // namespace

void require_source(const Source& source) {
  const auto& options = source.options;
  if (!source.consumer) throw std::invalid_argument("consumer must not be null");
  const auto length = core::utf8_length(options.source);
  if (!length || *length < 1 || *length > 64) {
    throw std::invalid_argument("source must be 1 to 64 characters of UTF-8 without NUL");
  }
  if (options.topic) {
    const auto topic = core::utf8_length(*options.topic);
    if (!topic || *topic < 1 || *topic > 255) {
      throw std::invalid_argument("topic must be 1 to 255 characters of UTF-8 without NUL");
    }
  }
  if (options.prefetch < 1 || options.prefetch > 10'000) {
    throw std::out_of_range("prefetch must be 1 to 10000");
  }
}

ConsumeService::ConsumeService(runtime::Node& node, Inbox& inbox, Source source)
    : source_(std::move(source)),
      database_(node.database()),
      inbox_(inbox),
      log_(node.logger()),
      metrics_(node.metrics()),
      progress_(node.database().clock()) {}

ConsumeService::~ConsumeService() {
  cut_off();
  ConsumeService::stop(clock().mono());
  thread_ = {};  // joins
}

// --- start and stop

void ConsumeService::start() {
  {
    const std::lock_guard lock(mutex_);
    health_.running = true;
  }
  thread_ = std::jthread([this] { run(); });
}

void ConsumeService::request_stop() {
  ends_.request_stop();
}

bool ConsumeService::stop(MonoTime deadline) {
  ConsumeService::request_stop();
  if (!thread_.joinable()) return true;
  {
    std::unique_lock lock(mutex_);
    const auto await_end = [&](MonoTime until) {
      while (!ended_ && clock().mono() < until) clock().wait_until(ended_changed_, lock, until);
      return ended_;
    };
    if (!await_end(deadline)) {
      calls_.request_stop();
      if (!await_end(clock().mono() + consumer_patience)) return false;
    }
    health_.running = false;
  }
  thread_ = {};  // joins
  return true;
}

void ConsumeService::cut_off() {
  ends_.request_stop();
  calls_.request_stop();
}

// --- the thread

void ConsumeService::run() {
  while (!ends_.stop_requested()) {
    progress_.begin();
    const auto began = std::chrono::steady_clock::now();
    auto messages = fetch();
    if (!messages) continue;
    if (!messages->empty()) {
      take_in(std::move(*messages));
    } else if (std::chrono::steady_clock::now() - began < empty_pause) {
      clock().sleep_for(empty_pause, ends_.get_token());
    }
  }
  source_.consumer->close();
  progress_.rest(MonoTime::max());
  const std::lock_guard lock(mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

TransportCall ConsumeService::call(milliseconds limit, const std::stop_token& stop) {
  return {.deadline = std::chrono::steady_clock::now() + limit, .stop = stop};
}

std::optional<std::vector<IncomingMessage>> ConsumeService::fetch() {
  std::string problem;
  try {
    const core::LoopProgress::Aside aside(progress_);
    auto messages = source_.consumer->fetch(static_cast<std::size_t>(source_.options.prefetch),
                                            call(fetch_wait, ends_.get_token()));
    note_broker(std::nullopt);
    return messages;
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "the broker could not be read";
  }
  if (ends_.stop_requested()) return std::nullopt;
  note_broker(problem);
  pause(broker_failures_ - 1);
  return std::nullopt;
}

void ConsumeService::take_in(std::vector<IncomingMessage> messages) {
  const auto tags = tags_of(messages);
  {
    const std::lock_guard lock(mutex_);
    fetched_ = messages.size();
  }
  std::vector<inbox::Arrival> arrivals;
  arrivals.reserve(messages.size());
  for (auto& each : messages) {
    arrivals.push_back(arrival_of(inbox_, source_.options, std::move(each)));
  }
  try {
    const auto answers = store(arrivals);
    note_database(nullptr);
    note_stored(arrivals, answers);
    ack(tags);
  } catch (const std::exception& error) {
    give_back(tags);
    note_database(&error);
    pause(health_.failures - 1);
  }
  const std::lock_guard lock(mutex_);
  fetched_ = 0;
}

/// In one transaction. If the database refuses a message, the others are stored without it.
std::vector<InboxEnqueued> ConsumeService::store(std::span<const inbox::Arrival> arrivals) {
  const auto stop = calls_.get_token();
  try {
    return InboxAccess::receive(inbox_, arrivals, stop);
  } catch (const Error& error) {
    if (!blames_data(error) || arrivals.size() == 1) throw;
  }
  std::vector<InboxEnqueued> answers;
  for (const auto& each : arrivals) {
    const auto one = InboxAccess::receive(inbox_, std::span{&each, 1}, stop);
    answers.push_back(one.front());
  }
  return answers;
}

void ConsumeService::ack(std::span<const std::uint64_t> tags) {
  try {
    source_.consumer->ack(tags, call(ack_patience, calls_.get_token()));
  } catch (const std::exception& error) {  // delivered again, and recognised as duplicates
    note_broker(error.what());
  }
}

void ConsumeService::give_back(std::span<const std::uint64_t> tags) {
  count("returned", tags.size());
  try {
    source_.consumer->give_back(tags, call(ack_patience, calls_.get_token()));
  } catch (const std::exception& error) {  // the broker delivers them again by itself
    note_broker(error.what());
  }
}

void ConsumeService::pause(int failures) {
  const auto delay = reconnect_backoff.delay(failures, core::random_unit());
  progress_.rest(clock().mono() + delay);
  clock().sleep_for(delay, ends_.get_token());
}

// --- state

void ConsumeService::count(std::string_view result, std::uint64_t number) const {
  metrics_.count(
      "dovetail_transport_received_total", number,
      {{"store", database_.name()}, {"source", source_.options.source}, {"result", result}});
}

void ConsumeService::note_stored(std::span<const inbox::Arrival> arrivals,
                                 std::span<const InboxEnqueued> answers) {
  std::uint64_t stored = 0;
  std::uint64_t dead = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].stored()) continue;
    ++(arrivals[i].problem ? dead : stored);
    if (!arrivals[i].problem) continue;
    log_.write(LogLevel::error, "transport.unreadable",
               {{"store", database_.name()},
                {"source", source_.options.source},
                {"message_id", arrivals[i].request.message_id},
                {"error", *arrivals[i].problem}});
  }
  const auto duplicates = answers.size() - stored - dead;
  count("stored", stored);
  count("duplicate", duplicates);
  count("dead_letter", dead);
  const std::lock_guard lock(mutex_);
  stored_ += stored;
  duplicates_ += duplicates;
  dead_ += dead;
}

void ConsumeService::note_broker(const std::optional<std::string>& problem) {
  bool changed = false;
  {
    const std::lock_guard lock(mutex_);
    changed = problem.has_value() != broker_problem_.has_value();
    if (problem && changed) broker_since_ = clock().mono();
    broker_failures_ = problem ? broker_failures_ + 1 : 0;
    broker_problem_ = problem;
  }
  if (!changed) return;
  const auto address = source_.consumer->address();
  if (problem) {
    log_.write(LogLevel::warn, "transport.unavailable",
               {{"store", database_.name()},
                {"source", source_.options.source},
                {"address", address},
                {"error", *problem}});
  } else {
    log_.write(
        LogLevel::info, "transport.available",
        {{"store", database_.name()}, {"source", source_.options.source}, {"address", address}});
  }
}

void ConsumeService::note_database(const std::exception* error) {
  if (error != nullptr) {
    log_.write(LogLevel::error, "transport.not_stored",
               {{"store", database_.name()},
                {"source", source_.options.source},
                {"error", error->what()}});
  }
  const std::lock_guard lock(mutex_);
  if (error == nullptr) {
    health_.failures = 0;
    return;
  }
  if (health_.failures++ == 0) failing_since_ = clock().mono();
  health_.last_error = error->what();
}

component::ServiceHealth ConsumeService::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

std::vector<component::Loop> ConsumeService::loops() const {
  return {{name(), fetch_wait, [this] { return progress_.look(); }}};
}

std::optional<std::string> ConsumeService::outage() const {
  const auto now = info();
  if (now.state != TransportState::unavailable) return {};
  return "the source " + now.name + " at " + now.address + " is unavailable: " + now.reason;
}

TransportInfo ConsumeService::info() const {
  TransportInfo info{.direction = TransportInfo::Direction::consume,
                     .name = source_.options.source,
                     .kind = source_.consumer->kind(),
                     .address = source_.consumer->address()};
  const std::lock_guard lock(mutex_);
  const auto set = [&](TransportState state, const std::string& reason, MonoTime since) {
    info.state = state;
    info.reason = reason;
    info.since = std::chrono::duration_cast<milliseconds>(clock().mono() - since);
  };
  if (health_.running) info.state = TransportState::running;
  if (health_.running && health_.failures > 0) {
    set(TransportState::failing, health_.last_error, failing_since_);
  } else if (health_.running && broker_problem_) {
    set(TransportState::unavailable, *broker_problem_, broker_since_);
  }
  info.in_flight = fetched_;
  info.done = stored_;
  info.repeated = duplicates_;
  info.dead = dead_;
  return info;
}

}  // namespace dovetail::transport

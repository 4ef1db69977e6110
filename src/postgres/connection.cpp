#include "postgres/connection.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "core/assert.hpp"
#include "dovetail/error.hpp"
#include "postgres/error.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::size_t copy_chunk_bytes = std::size_t{256} << 10;

constexpr std::chrono::seconds default_connect_timeout{10};
constexpr int cancel_grace_ms = 5'000;

/// What we add where the user said nothing. Together the four TCP settings notice a half-open connection in
/// 15 s.
constexpr std::array<std::pair<const char*, const char*>, 8> default_settings{{
    {"application_name", "dovetail"},
    {"client_encoding", "UTF8"},
    {"target_session_attrs", "read-write"},
    {"keepalives", "1"},
    {"keepalives_idle", "10"},
    {"keepalives_interval", "5"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "15000"},
}};

void discard_notice(void*, const char*) {}

/// The SQLSTATE in the verbose text of a failed connection attempt: `FATAL:  28P01: …`. libpq offers no other
/// access.
std::string sqlstate_of_connect_failure(std::string_view verbose) {
  std::string found;
  for (std::size_t at = 0; (at = verbose.find(":  ", at)) != std::string_view::npos; ++at) {
    const auto code = verbose.substr(at + 3, 6);
    const auto is_code_character = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
    if (code.size() == 6 && code.back() == ':' && std::ranges::all_of(code.substr(0, 5), is_code_character)) {
      found = code.substr(0, 5);
    }
  }
  return found;
}

/// A connection attempt that failed did nothing yet; without an answer from a server it may be tried again.
/// libpq's own refusals have no SQLSTATE, only words; a second try does not change their mind.
ErrorKind classify_connect_failure(const std::string& sqlstate, std::string_view message) {
  if (sqlstate == "3D000") return ErrorKind::schema;  // no such database
  if (sqlstate.empty()) {
    for (const auto* word :
         {"does not support SSL", "no password supplied", "certificate", "SSL is not enabled"}) {
      if (message.find(word) != std::string_view::npos) return ErrorKind::permission;
    }
  }
  return classify(sqlstate, false);
}

std::string first_line(std::string_view text) {
  return std::string{text.substr(0, text.find('\n'))};
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------

ConnectionSettings::ConnectionSettings(std::string_view url, bool read_committed) {
  char* message = nullptr;
  const std::string text{url};
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options{
      PQconninfoParse(text.c_str(), &message), &PQconninfoFree};
  PQfreemem(message);  // it may quote the string, secrets included
  if (!options) {
    throw std::invalid_argument(
        "libpq cannot read the PostgreSQL connection string (not shown: it may hold a password)");
  }
  for (const auto* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) values_.emplace_back(option->keyword, option->val);
  }
  for (const auto& [key, value] : default_settings) {
    if (get(key).empty()) values_.emplace_back(key, value);
  }
  if (read_committed) {
    const std::string isolation = "-c default_transaction_isolation=read\\ committed";
    const auto given = std::ranges::find(values_, "options", [](const auto& entry) { return entry.first; });
    if (given == values_.end()) {
      values_.emplace_back("options", isolation);
    } else {
      given->second += " " + isolation;
    }
  }
}

std::string_view ConnectionSettings::get(std::string_view key) const {
  const auto found =
      std::ranges::find(values_, key, [](const auto& entry) -> std::string_view { return entry.first; });
  return found == values_.end() ? std::string_view{} : std::string_view{found->second};
}

std::string ConnectionSettings::describe() const {
  const auto or_else = [this](std::string_view key, std::string_view fallback) {
    const auto value = get(key);
    return std::string{value.empty() ? fallback : value};
  };
  return "postgresql:" + or_else("host", "local") + ":" + or_else("port", "5432") + "/" +
         or_else("dbname", "default");
}

// ---------------------------------------------------------------------------------------------------------------------

/// One exchange with the server: waits for the socket, and turns a stop request into a cancel request.
class Connection::Call {
 public:
  Call(PGconn* connection, int& wake_fd, const std::stop_token& stop)
      : connection_(connection), wake_fd_(wake_fd) {
    if (!stop.stop_possible()) return;
    if (stop.stop_requested()) throw Error({ErrorKind::cancelled, "", "send"}, "stopped before it was sent");
    if (wake_fd_ < 0) wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    const int fd = wake_fd_;
    wake_.emplace(stop, [fd] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
    });
  }
  ~Call() {
    if (!wake_) return;
    wake_.reset();
    std::uint64_t pending = 0;
    [[maybe_unused]] const auto drained = ::read(wake_fd_, &pending, sizeof pending);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Waits for any of `events`; false when the server did not even answer our cancel request.
  bool wait(short events) {
    std::array<pollfd, 2> fds{
        {{PQsocket(connection_), events, 0}, {wake_ && !cancelled_ ? wake_fd_ : -1, POLLIN, 0}}};
    for (;;) {
      const int ready = ::poll(fds.data(), fds.size(), cancelled_ ? cancel_grace_ms : -1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return false;
      if (fds[1].revents != 0) {
        cancel();
        fds[1].fd = -1;
        if (fds[0].revents == 0) continue;
      }
      return true;
    }
  }

  bool flush() {
    for (;;) {
      const int left = PQflush(connection_);
      if (left <= 0) return left == 0;
      if (!wait(POLLIN | POLLOUT) || PQconsumeInput(connection_) == 0) return false;
    }
  }

  bool wait_until_result_is_there() {
    while (PQisBusy(connection_) != 0) {
      if (!wait(POLLIN) || PQconsumeInput(connection_) == 0) return false;
    }
    return true;
  }

 private:
  void cancel() {
    cancelled_ = true;
    const std::unique_ptr<PGcancel, decltype(&PQfreeCancel)> handle{PQgetCancel(connection_), &PQfreeCancel};
    std::array<char, 256> message{};
    if (handle) PQcancel(handle.get(), message.data(), static_cast<int>(message.size()));
  }

  PGconn* connection_;
  int& wake_fd_;
  bool cancelled_ = false;
  std::optional<std::stop_callback<std::function<void()>>> wake_;
};

// ---------------------------------------------------------------------------------------------------------------------

Connection::Connection(PGconn* connection, bool owned) : connection_(connection), owned_(owned) {}

Connection::~Connection() {
  if (wake_fd_ >= 0) ::close(wake_fd_);
  if (owned_) PQfinish(connection_);
}

std::unique_ptr<Connection> Connection::open(const ConnectionSettings& settings,
                                             const std::stop_token& stop) {
  std::vector<const char*> keys;
  std::vector<const char*> values;
  for (const auto& [key, value] : settings.values()) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keys.push_back(nullptr);
  values.push_back(nullptr);
  auto* native = PQconnectStartParams(keys.data(), values.data(), 0);
  if (native == nullptr) throw std::bad_alloc();
  std::unique_ptr<Connection> connection{new Connection(native, true)};
  PQsetNoticeProcessor(native, &discard_notice, nullptr);
  PQsetErrorVerbosity(native, PQERRORS_VERBOSE);

  const auto asked = settings.get("connect_timeout");
  const auto patience = asked.empty()
                            ? default_connect_timeout
                            : std::chrono::seconds{std::max(1, std::atoi(std::string{asked}.c_str()))};
  const auto give_up_at = std::chrono::steady_clock::now() + patience;
  // PQconnectPoll knows neither time limits nor stop tokens: look up often enough to honour both.
  auto state = PQstatus(native) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  bool in_time = true;
  while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED && in_time && !stop.stop_requested()) {
    pollfd fd{PQsocket(native), static_cast<short>(state == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
    if (::poll(&fd, 1, 50) > 0) state = PQconnectPoll(native);
    in_time = std::chrono::steady_clock::now() < give_up_at;
  }
  if (stop.stop_requested()) throw Error({ErrorKind::cancelled, "", "connect"}, "stopped while connecting");
  if (state != PGRES_POLLING_OK) {
    const std::string message = in_time ? PQerrorMessage(native) : "no answer within the connect timeout";
    const auto sqlstate = sqlstate_of_connect_failure(message);
    throw Error({classify_connect_failure(sqlstate, message), sqlstate, "connect"},
                settings.describe() + ": " + first_line(message));
  }
  PQsetErrorVerbosity(native, PQERRORS_DEFAULT);
  PQsetnonblocking(native, 1);
  return connection;
}

std::unique_ptr<Connection> Connection::borrow(PGconn* connection) {
  if (connection == nullptr) throw std::invalid_argument("connection must not be null");
  return std::unique_ptr<Connection>{new Connection(connection, false)};
}

bool Connection::usable() const {
  if (broken_ || PQstatus(connection_) != CONNECTION_OK) return false;
  if (transaction_status() != PQTRANS_IDLE || PQpipelineStatus(connection_) != PQ_PIPELINE_OFF) return false;
  pollfd fd{PQsocket(connection_), POLLIN | POLLRDHUP, 0};
  if (::poll(&fd, 1, 0) == 0) return true;
  if ((fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return false;
  // An idle server speaks to report a changed setting, or to say goodbye before it hangs up.
  return PQconsumeInput(connection_) != 0 && PQstatus(connection_) == CONNECTION_OK;
}

Connection::Preparation Connection::preparation_of(const Command& command) const {
  if (!command.prepare) return Preparation::none;
  const auto found = prepared_.find(std::string{command.name});
  if (found == prepared_.end()) return Preparation::first_use;
  return found->second == command.text ? Preparation::done : Preparation::none;
}

void Connection::send(const Command& command) {
  static const Params none;
  const auto& params = command.params != nullptr ? *command.params : none;
  const auto arrays = params.arrays();
  int sent = 0;
  if (preparation_of(command) == Preparation::done) {
    sent = PQsendQueryPrepared(connection_, std::string{command.name}.c_str(), params.count(),
                               arrays.values.data(), arrays.lengths.data(), arrays.formats.data(), 1);
  } else {
    sent = PQsendQueryParams(connection_, command.text.data(), params.count(), arrays.types.data(),
                             arrays.values.data(), arrays.lengths.data(), arrays.formats.data(), 1);
  }
  if (sent == 0) fail(command, nullptr);
}

/// A COPY that nobody here feeds or reads would leave the connection waiting for ever.
void Connection::refuse_copy(const Result& result) {
  const auto status = result.status();
  if (status != PGRES_COPY_IN && status != PGRES_COPY_OUT && status != PGRES_COPY_BOTH) return;
  broken_ = true;
  throw InvalidOperation("COPY from or to the client cannot be run as a statement");
}

Result Connection::wait_for_last_result(const Command& command, Call& call) {
  std::optional<Result> last;
  for (;;) {
    if (!call.wait_until_result_is_there()) fail(command, nullptr);
    Result next{PQgetResult(connection_)};
    if (next.get() == nullptr) break;
    if (!last || !last->failed()) last.emplace(std::move(next));
    refuse_copy(*last);
  }
  if (!last) fail(command, nullptr);
  if (last->failed()) fail(command, &*last);
  return std::move(*last);
}

Result Connection::run(const Command& command, const std::stop_token& stop) {
  if (preparation_of(command) == Preparation::first_use) {
    auto results = run_pipelined({&command, 1}, stop);
    return std::move(results.back());
  }
  Call call(connection_, wake_fd_, stop);
  send(command);
  if (!call.flush()) fail(command, nullptr);
  return wait_for_last_result(command, call);
}

std::vector<Result> Connection::run_pipelined(std::span<const Command> commands,
                                              const std::stop_token& stop) {
  DOVETAIL_ASSERT(!commands.empty());
  Call call(connection_, wake_fd_, stop);
  if (PQenterPipelineMode(connection_) == 0) fail(commands.front(), nullptr);
  std::vector<std::string> preparing;
  std::vector<std::pair<std::size_t, bool>> expected;  // which command, and whether this is its Prepare
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (preparation_of(commands[i]) == Preparation::first_use) {
      prepared_.emplace(commands[i].name, commands[i].text);  // for those behind it; taken back when it fails
      preparing.emplace_back(commands[i].name);
      if (PQsendPrepare(connection_, std::string{commands[i].name}.c_str(), commands[i].text.data(), 0,
                        nullptr) == 0) {
        fail(commands[i], nullptr);
      }
      expected.emplace_back(i, true);
    }
    send(commands[i]);
    expected.emplace_back(i, false);
  }
  if (PQpipelineSync(connection_) == 0 || !call.flush()) fail(commands.back(), nullptr);

  std::vector<Result> results;
  std::optional<Result> failure;
  std::size_t failed_command = 0;
  for (const auto& [index, is_prepare] : expected) {
    if (!call.wait_until_result_is_there()) fail(commands[index], nullptr);
    Result result{PQgetResult(connection_)};
    if (result.get() == nullptr) fail(commands[index], nullptr);
    if (is_prepare && !result.failed()) std::erase(preparing, commands[index].name);
    refuse_copy(result);
    if (result.failed() && !failure) {
      failed_command = index;
      failure.emplace(std::move(result));
    } else if (!is_prepare) {
      results.push_back(std::move(result));
    }
    if (!call.wait_until_result_is_there()) fail(commands[index], nullptr);
    const Result end{PQgetResult(connection_)};
    DOVETAIL_ASSERT(end.get() == nullptr);
  }
  for (const auto& name : preparing) prepared_.erase(name);
  if (!call.wait_until_result_is_there()) fail(commands.back(), nullptr);
  const Result sync{PQgetResult(connection_)};
  if (PQexitPipelineMode(connection_) == 0) fail(commands.back(), nullptr);
  if (failure) fail(commands[failed_command], &*failure);
  return results;
}

void Connection::send_copy_data(const Command& command, std::string_view data, Call& call) {
  while (!data.empty()) {
    const auto some = data.substr(0, copy_chunk_bytes);
    while (PQputCopyData(connection_, some.data(), static_cast<int>(some.size())) == 0) {
      if (!call.wait(POLLOUT)) fail(command, nullptr);
    }
    data.remove_prefix(some.size());
    if (!call.flush()) return;  // the end's result tells why
  }
  while (PQputCopyEnd(connection_, nullptr) == 0) {
    if (!call.wait(POLLOUT)) fail(command, nullptr);
  }
}

void Connection::copy_in(const Command& command, std::string_view data, const std::stop_token& stop) {
  Call call(connection_, wake_fd_, stop);
  if (PQsendQuery(connection_, command.text.data()) == 0 || !call.flush()) fail(command, nullptr);
  if (!call.wait_until_result_is_there()) fail(command, nullptr);
  // The server is ready for the data, or says why not.
  const Result ready{PQgetResult(connection_)};
  if (ready.get() != nullptr && ready.status() == PGRES_COPY_IN) {
    send_copy_data(command, data, call);
    if (!call.flush()) fail(command, nullptr);
    wait_for_last_result(command, call);
    return;
  }
  while (auto* rest = PQgetResult(connection_)) PQclear(rest);
  fail(command, ready.get() != nullptr ? &ready : nullptr);
}

void Connection::run_script(std::string_view name, const std::string& text) {
  const Command command{.name = name, .text = text};
  Call call(connection_, wake_fd_, {});
  if (PQsendQuery(connection_, text.c_str()) == 0 || !call.flush()) fail(command, nullptr);
  wait_for_last_result(command, call);
}

bool Connection::wait_for_notification(std::chrono::steady_clock::time_point deadline,
                                       const std::stop_token& stop,
                                       const std::function<void(std::string_view)>& heard) {
  const auto take_all = [&] {
    bool any = false;
    while (auto* notification = PQnotifies(connection_)) {
      if (heard) heard(notification->extra);
      PQfreemem(notification);
      any = true;
    }
    return any;
  };
  while (!stop.stop_requested()) {
    if (take_all()) return true;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    Call call(connection_, wake_fd_, stop);
    std::array<pollfd, 2> fds{{{PQsocket(connection_), POLLIN, 0}, {wake_fd_, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(left.count())) <= 0 || fds[0].revents == 0) continue;
    if (PQconsumeInput(connection_) == 0 || PQstatus(connection_) != CONNECTION_OK) {
      fail({.name = "listen", .text = ""}, nullptr);
    }
  }
  return false;
}

void Connection::fail(const Command& command, const Result* result) {
  const char* code = result != nullptr ? PQresultErrorField(result->get(), PG_DIAG_SQLSTATE) : nullptr;
  const char* primary =
      result != nullptr ? PQresultErrorField(result->get(), PG_DIAG_MESSAGE_PRIMARY) : nullptr;
  // Without an SQLSTATE from the server, what failed is the connection.
  const std::string sqlstate = code != nullptr ? code : "";
  const bool broken = sqlstate.empty() || PQstatus(connection_) == CONNECTION_BAD;
  const std::string message = primary != nullptr ? primary : first_line(PQerrorMessage(connection_));
  const auto kind = classify(broken ? "" : sqlstate, command.decides);
  broken_ = broken_ || kind == ErrorKind::connection_lost || kind == ErrorKind::commit_in_doubt;
  // Somebody deallocated our prepared statements, or changed what they return: start over on a new
  // connection.
  if (sqlstate == "26000" || sqlstate == "0A000") broken_ = true;
  throw Error({kind, sqlstate, std::string{command.name}},
              message.empty() ? "the connection broke" : message);
}

}  // namespace dovetail::postgres

#include "postgres/connection.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "core/assert.hpp"
#include "dovetail/error.hpp"
#include "postgres/error.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::size_t copy_chunk_bytes = std::size_t{256} << 10;
/// The time limit for the answer to a cancel request, to a ROLLBACK, and to a COMMIT after a stop
/// request.
constexpr std::chrono::seconds answer_grace{2};

std::string first_line(std::string_view text) {
  return std::string{text.substr(0, text.find('\n'))};
}

}  // namespace

/// A cancel request, sent by its own thread: PQcancel() has no time limit, and a frozen server
/// never answers it.
class Connection::CancelRequest {
 public:
  explicit CancelRequest(PGconn* connection) {
    std::unique_ptr<PGcancel, decltype(&PQfreeCancel)> handle{PQgetCancel(connection),
                                                              &PQfreeCancel};
    if (!handle) return;
    std::promise<void> promise;
    auto answered = promise.get_future();
    try {
      std::thread([handle = std::move(handle), promise = std::move(promise)]() mutable {
        std::array<char, 256> message{};
        PQcancel(handle.get(), message.data(), static_cast<int>(message.size()));
        promise.set_value();
      }).detach();
      answered_ = std::move(answered);
    } catch (
        const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread is available: the
    }                                // connection is given up after the same time instead
  }
  /// True once the server has processed the request. Until then it may hit the next statement of
  /// the connection.
  [[nodiscard]] bool answered_by(std::chrono::steady_clock::time_point time) const {
    return !answered_.valid() || answered_.wait_until(time) == std::future_status::ready;
  }

 private:
  std::future<void> answered_;
};

/// One exchange with the server. It waits for the socket, and turns a stop request into a cancel
/// request.
class Connection::Call {
 public:
  using AtStop = Command::AtStop;

  Call(Connection& owner, const std::stop_token& stop, AtStop at_stop = AtStop::cancel)
      : owner_(owner), connection_(owner.connection_), at_stop_(at_stop) {
    owner.process_.require();
    if (owner.broken_) {
      throw Error({ErrorKind::connection_lost, "", "send"}, "the connection was given up before");
    }
    if (at_stop_ == AtStop::hurry) limit_wait();
    if (!stop.stop_possible() || deadline_) return;
    if (stop.stop_requested()) {
      if (at_stop_ == AtStop::cancel) {
        throw Error({ErrorKind::cancelled, "", "send"}, "stopped before it was sent");
      }
      limit_wait();
      return;
    }
    auto& fd = owner.wake_fd_;
    if (fd < 0) fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    stop_ = stop;
    wake_.emplace(stop, Wake{fd});
  }
  ~Call() {
    if (wake_) {
      wake_.reset();
      std::uint64_t pending = 0;
      if (stop_.stop_requested()) {
        [[maybe_unused]] const auto drained = ::read(owner_.wake_fd_, &pending, sizeof pending);
      }
    }
    if (cancel_ && !cancel_->answered_by(*deadline_)) owner_.broken_ = true;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Waits for any of `events`. Returns false if the server did not answer within the time that a
  /// stop request leaves.
  bool wait(short events) {
    std::array<pollfd, 2> fds{{{PQsocket(connection_), events, 0},
                               {wake_ && !deadline_ ? owner_.wake_fd_ : -1, POLLIN, 0}}};
    for (;;) {
      const int ready = ::poll(fds.data(), fds.size(), milliseconds_left());
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        owner_.abandoned_ = ready == 0;
        return false;
      }
      if (fds[1].revents != 0) {
        limit_wait();
        if (at_stop_ == AtStop::cancel) cancel_.emplace(connection_);
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
  struct Wake {
    int fd;
    void operator()() const {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
    }
  };
  void limit_wait() { deadline_ = std::chrono::steady_clock::now() + answer_grace; }
  [[nodiscard]] int milliseconds_left() const {
    if (!deadline_) return -1;
    const auto left = *deadline_ - std::chrono::steady_clock::now();
    return static_cast<int>(
        std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }

  Connection& owner_;
  PGconn* connection_;
  AtStop at_stop_;
  std::stop_token stop_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<CancelRequest> cancel_;
  std::optional<std::stop_callback<Wake>> wake_;
};

Connection::Connection(PGconn* connection, bool owned) : connection_(connection), owned_(owned) {}

Connection::~Connection() {
  if (wake_fd_ >= 0) ::close(wake_fd_);
  // A forked child must not close the connection: PQfinish() would end the session of the parent.
  if (owned_ && process_.is_this_one()) PQfinish(connection_);
}

std::unique_ptr<Connection> Connection::borrow(PGconn* connection) {
  if (connection == nullptr) throw std::invalid_argument("connection must not be null");
  return std::unique_ptr<Connection>{new Connection(connection, false)};
}

bool Connection::usable() const {
  if (broken_ || !process_.is_this_one() || PQstatus(connection_) != CONNECTION_OK) return false;
  if (transaction_status() != PQTRANS_IDLE || PQpipelineStatus(connection_) != PQ_PIPELINE_OFF)
    return false;
  pollfd fd{PQsocket(connection_), POLLIN | POLLRDHUP, 0};
  if (::poll(&fd, 1, 0) == 0) return true;
  if ((fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return false;
  // An idle server sends data only to report a changed setting, or before it closes the connection.
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
    sent =
        PQsendQueryPrepared(connection_, std::string{command.name}.c_str(), params.count(),
                            arrays.values.data(), arrays.lengths.data(), arrays.formats.data(), 1);
  } else {
    sent = PQsendQueryParams(connection_, command.text.data(), params.count(), arrays.types.data(),
                             arrays.values.data(), arrays.lengths.data(), arrays.formats.data(), 1);
  }
  if (sent == 0) fail(command, nullptr);
}

/// A COPY without a reader or writer here would block the connection forever.
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
  Call call(*this, stop, command.at_stop);
  send(command);
  if (!call.flush()) fail(command, nullptr);
  return wait_for_last_result(command, call);
}

std::vector<Result> Connection::run_pipelined(std::span<const Command> commands,
                                              const std::stop_token& stop) {
  DOVETAIL_ASSERT(!commands.empty());
  Call call(*this, stop);
  if (PQenterPipelineMode(connection_) == 0) fail(commands.front(), nullptr);
  std::vector<std::string> preparing;
  std::vector<std::pair<std::size_t, bool>>
      expected;  // the command, and whether this is its Prepare
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (preparation_of(commands[i]) == Preparation::first_use) {
      prepared_.emplace(commands[i].name,
                        commands[i].text);  // for the later commands; removed if it fails
      preparing.emplace_back(commands[i].name);
      if (PQsendPrepare(connection_, std::string{commands[i].name}.c_str(), commands[i].text.data(),
                        0, nullptr) == 0) {
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
    if (!call.flush()) return;  // the final result has the reason
  }
  while (PQputCopyEnd(connection_, nullptr) == 0) {
    if (!call.wait(POLLOUT)) fail(command, nullptr);
  }
}

void Connection::copy_in(const Command& command, std::string_view data,
                         const std::stop_token& stop) {
  Call call(*this, stop);
  if (PQsendQuery(connection_, command.text.data()) == 0 || !call.flush()) fail(command, nullptr);
  if (!call.wait_until_result_is_there()) fail(command, nullptr);
  // The server is ready for the data, or reports an error.
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
  Call call(*this, {});
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
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    Call call(*this, stop);
    std::array<pollfd, 2> fds{{{PQsocket(connection_), POLLIN, 0}, {wake_fd_, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(left.count())) <= 0 || fds[0].revents == 0)
      continue;
    if (PQconsumeInput(connection_) == 0 || PQstatus(connection_) != CONNECTION_OK) {
      fail({.name = "listen", .text = ""}, nullptr);
    }
  }
  return false;
}

void Connection::fail(const Command& command, const Result* result) {
  const char* code =
      result != nullptr ? PQresultErrorField(result->get(), PG_DIAG_SQLSTATE) : nullptr;
  const char* primary =
      result != nullptr ? PQresultErrorField(result->get(), PG_DIAG_MESSAGE_PRIMARY) : nullptr;
  // Without a SQLSTATE from the server, the connection itself has failed.
  const std::string sqlstate = code != nullptr ? code : "";
  const bool broken = sqlstate.empty() || PQstatus(connection_) == CONNECTION_BAD;
  std::string message = primary != nullptr ? primary : first_line(PQerrorMessage(connection_));
  auto kind = classify(broken ? "" : sqlstate, command.decides);
  if (abandoned_) {
    // A ROLLBACK has a time limit even without a stop request.
    const bool stopped = command.at_stop != Command::AtStop::hurry;
    message = std::string{stopped ? "stopped; " : ""} +
              "the server did not answer, and its connection was given up";
    if (stopped && kind == ErrorKind::connection_lost) kind = ErrorKind::cancelled;
    broken_ = true;
  }
  broken_ = broken_ || kind == ErrorKind::connection_lost || kind == ErrorKind::commit_in_doubt;
  // The prepared statements were deallocated, or their result types changed. Start again on a new
  // connection.
  if (sqlstate == "26000" || sqlstate == "0A000") broken_ = true;
  throw Error({kind, sqlstate, std::string{command.name}},
              message.empty() ? "the connection broke" : message);
}

}  // namespace dovetail::postgres

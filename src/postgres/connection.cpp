#include "postgres/connection.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "core/assert.hpp"
#include "dovetail/error.hpp"
#include "postgres/connection_call.hpp"
#include "postgres/error.hpp"

namespace dovetail::postgres {
namespace {

constexpr std::size_t copy_chunk_bytes = std::size_t{256} << 10;

std::string first_line(std::string_view text) {
  return std::string{text.substr(0, text.find('\n'))};
}

}  // namespace

Connection::Connection(PGconn* connection, bool owned) : connection_(connection), owned_(owned) {}

Connection::~Connection() {
  if (wake_fd_ >= 0) ::close(wake_fd_);
  // A forked child must not close the connection: PQfinish() would end the session of the parent.
  if (owned_ && process_.is_current_process()) PQfinish(connection_);
}

std::unique_ptr<Connection> Connection::borrow(PGconn* connection) {
  if (connection == nullptr) throw std::invalid_argument("connection must not be null");
  return std::unique_ptr<Connection>{new Connection(connection, false)};
}

bool Connection::usable() const {
  if (broken_ || !process_.is_current_process() || PQstatus(connection_) != CONNECTION_OK)
    return false;
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

/// The commands of one pipeline, and their results.
struct Connection::Pipeline {
  /// A result that the server will send: that of a command, of its Prepare, or of the end of its
  /// step.
  struct Expected {
    enum class Kind { prepare, result, step };
    std::size_t command;
    Kind kind;
  };
  std::span<const Command> commands;
  std::vector<Expected> expected{};
  std::vector<std::string> preparing{};  // names whose Prepare has not succeeded yet
  std::vector<Result> results{};
  std::optional<Result> failure{};
  std::size_t failed_command = 0;
};

void Connection::send_all(Pipeline& pipeline) {
  using Kind = Pipeline::Expected::Kind;
  for (std::size_t i = 0; i < pipeline.commands.size(); ++i) {
    const auto& command = pipeline.commands[i];
    if (preparation_of(command) == Preparation::first_use) {
      // The later commands use the name. It is removed if the Prepare fails.
      prepared_.emplace(command.name, command.text);
      pipeline.preparing.emplace_back(command.name);
      if (PQsendPrepare(connection_, std::string{command.name}.c_str(), command.text.data(), 0,
                        nullptr) == 0) {
        fail(command, nullptr);
      }
      pipeline.expected.push_back({i, Kind::prepare});
    }
    send(command);
    pipeline.expected.push_back({i, Kind::result});
    if (!command.ends_step || i + 1 == pipeline.commands.size()) continue;
    if (PQpipelineSync(connection_) == 0) fail(command, nullptr);
    pipeline.expected.push_back({i, Kind::step});
  }
}

void Connection::receive_all(Pipeline& pipeline, Call& call) {
  using Kind = Pipeline::Expected::Kind;
  for (const auto& [index, kind] : pipeline.expected) {
    const auto& command = pipeline.commands[index];
    const bool is_prepare = kind == Kind::prepare;
    if (!call.wait_until_result_is_there()) fail(command, nullptr);
    Result result{PQgetResult(connection_)};
    if (result.get() == nullptr) fail(command, nullptr);
    if (kind == Kind::step) continue;
    if (is_prepare && !result.failed()) std::erase(pipeline.preparing, command.name);
    refuse_copy(result);
    if (result.failed() && !pipeline.failure) {
      pipeline.failed_command = index;
      pipeline.failure.emplace(std::move(result));
    } else if (!is_prepare) {
      pipeline.results.push_back(std::move(result));
    }
    if (!call.wait_until_result_is_there()) fail(command, nullptr);
    const Result end{PQgetResult(connection_)};
    DOVETAIL_ASSERT(end.get() == nullptr);
  }
}

std::vector<Result> Connection::run_pipelined(std::span<const Command> commands,
                                              const std::stop_token& stop) {
  DOVETAIL_ASSERT(!commands.empty());
  Call call(*this, stop);
  if (PQenterPipelineMode(connection_) == 0) fail(commands.front(), nullptr);
  Pipeline pipeline{.commands = commands};
  send_all(pipeline);
  if (PQpipelineSync(connection_) == 0 || !call.flush()) fail(commands.back(), nullptr);
  receive_all(pipeline, call);
  for (const auto& name : pipeline.preparing) prepared_.erase(name);
  if (!call.wait_until_result_is_there()) fail(commands.back(), nullptr);
  const Result sync{PQgetResult(connection_)};
  if (PQexitPipelineMode(connection_) == 0) fail(commands.back(), nullptr);
  if (pipeline.failure) fail(commands[pipeline.failed_command], &*pipeline.failure);
  return std::move(pipeline.results);
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

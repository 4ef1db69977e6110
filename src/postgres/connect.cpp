// Connecting: the settings, one attempt with its time limit, and the meaning of its failure.
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "dovetail/error.hpp"
#include "postgres/connection.hpp"
#include "postgres/error.hpp"
#include "postgres/host_lookup.hpp"

namespace dovetail::postgres {
namespace {

using Steady = std::chrono::steady_clock;

/// PQconnectPoll supports neither time limits nor stop tokens. The loop checks both at this
/// interval.
constexpr int connect_poll_ms = 50;

/// Defaults for settings that the user did not give. The four TCP settings together detect a
/// half-open connection in 15 s.
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

/// libpq shows the SQLSTATE of a failed attempt to connect only in its verbose text: `FATAL:
/// 28P01: ...`.
std::string sqlstate_in(std::string_view line) {
  const auto is_code_character = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
  };
  for (std::size_t at = 0; (at = line.find(":  ", at)) != std::string_view::npos; ++at) {
    const auto code = line.substr(at + 3, 6);
    if (code.size() == 6 && code.back() == ':' &&
        std::ranges::all_of(code.substr(0, 5), is_code_character)) {
      return std::string{code.substr(0, 5)};
    }
  }
  return {};
}

struct ConnectReport {
  std::string sqlstate;
  std::string line;
};

/// The text of libpq has a line for each address that was tried. The last address counts.
ConnectReport report_of(std::string_view verbose) {
  ConnectReport report;
  while (!verbose.empty()) {
    const auto line = verbose.substr(0, verbose.find('\n'));
    verbose.remove_prefix(std::min(line.size() + 1, verbose.size()));
    auto sqlstate = sqlstate_in(line);
    // An indented line, or one after a line with a SQLSTATE, explains that line.
    const bool explains = line.empty() || line.front() == '\t' || !report.sqlstate.empty();
    if (sqlstate.empty() && explains) continue;
    report = {std::move(sqlstate), std::string{line}};
  }
  return report;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto comma = list.find(',');
    parts.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

/// Another host may answer differently. A server that refuses the password does so for all.
bool may_try_next_host(const Error& error) {
  return error.kind() != ErrorKind::cancelled &&
         (error.native_code().empty() || error.native_code() == "57P03");
}

bool requires_ssl(const ConnectionSettings& settings) {
  const auto mode = settings.get("sslmode");
  return mode == "require" || mode == "verify-ca" || mode == "verify-full";
}

/// A failed attempt changed nothing. Without an answer of a server it may be repeated.
ErrorKind kind_of_failure(PGconn* native, const std::string& sqlstate) {
  if (sqlstate == "3D000") return ErrorKind::schema;  // no such database
  if (sqlstate == "08P01")
    return ErrorKind::invalid;  // the server refuses the startup packet; a retry does not help
  if (sqlstate.empty() && PQconnectionNeedsPassword(native) != 0) return ErrorKind::permission;
  return classify(sqlstate, false);
}

std::string remedy_for(const std::string& sqlstate, const ConnectionSettings& settings) {
  if (sqlstate != "08P01" || !settings.sends_options()) return {};
  return ". A pooler such as PgBouncer refuses startup options: set PlatformOptions::pooled, or "
         "--pooled on "
         "the command line";
}

/// The exchange with PQconnectPoll.
struct Attempt {
  Attempt(PGconn* native, Steady::time_point give_up_at, const std::stop_token& stop) {
    auto state = PQstatus(native) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED && in_time &&
           !stop.stop_requested()) {
      pollfd fd{PQsocket(native),
                static_cast<short>(state == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
      if (::poll(&fd, 1, connect_poll_ms) > 0) state = PQconnectPoll(native);
      reached_ssl = reached_ssl || PQstatus(native) == CONNECTION_SSL_STARTUP;
      in_time = Steady::now() < give_up_at;
    }
    connected = state == PGRES_POLLING_OK;
    failed = state == PGRES_POLLING_FAILED;
  }
  bool connected = false;
  bool failed = false;
  bool in_time = true;
  bool reached_ssl = false;
};

[[noreturn]] void raise_failure(PGconn* native, const ConnectionSettings& settings,
                                const ConnectOptions& options, bool reached_ssl) {
  const auto report = report_of(PQerrorMessage(native));
  auto kind = kind_of_failure(native, report.sqlstate);
  // An SSL failure of the first connection is a mistake in the settings. Later it may be a server
  // that restarts.
  const bool ssl_refused = report.sqlstate.empty() && reached_ssl && requires_ssl(settings);
  if (options.first && ssl_refused) kind = ErrorKind::permission;
  throw Error({kind, report.sqlstate, "connect"},
              settings.describe() + ": " + report.line + remedy_for(report.sqlstate, settings));
}

/// The settings of each address of the host.
std::vector<ConnectionSettings> resolved(const ConnectionSettings& settings,
                                         const ConnectOptions& options,
                                         Steady::time_point give_up_at,
                                         const std::stop_token& stop) {
  const auto found = look_up_hosts(settings, give_up_at, stop, options.resolve);
  // libpq may look the name up once more. That cannot be interrupted, so check the stop first.
  if (stop.stop_requested())
    throw Error({ErrorKind::cancelled, "", "connect"}, "stopped while connecting");
  if (!found.failure) return settings.for_each_address(found.addresses);
  // A name that never had an address is a mistake. A name that had one is expected to return.
  const bool final = options.first && found.failure->name_is_unknown;
  throw Error({final ? ErrorKind::invalid : ErrorKind::connection_lost, "", "connect"},
              settings.describe() + ": " + found.failure->reason);
}

/// Connects to the first of the candidates that answers. Each has an equal share of the time that
/// is left, so that one that does not answer leaves time for the next.
template <class Connect>
auto first_of(const std::vector<ConnectionSettings>& candidates, const ConnectOptions& options,
              Steady::time_point give_up_at, const Connect& connect) {
  std::optional<Error> failure;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto its_options = options;
    auto its_end = give_up_at;
    if (candidates.size() > 1) {
      const auto share = (give_up_at - Steady::now()) / (candidates.size() - i);
      its_options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(share);
      its_end = Steady::now() + share;
    }
    try {
      return connect(candidates[i], its_options, its_end);
    } catch (const Error& error) {
      if (candidates.size() == 1 || !may_try_next_host(error)) throw;
      // An error that may pass weighs more than one that does not: the call is repeated then.
      if (!failure || error.is_transient()) failure = error;
    }
  }
  throw Error{*failure};
}

/// A port that cannot exist is a mistake in the URL. libpq would report it as a failed connection,
/// which is retried.
void require_port(std::string_view port) {
  int number = 0;
  const auto* const end = port.data() + port.size();
  const auto [rest, failure] = std::from_chars(port.data(), end, number);
  if (port.empty() || (failure == std::errc{} && rest == end && number >= 1 && number <= 65'535)) {
    return;
  }
  throw std::invalid_argument(
      "the port in the PostgreSQL connection string must be 1 to 65535, "
      "got " +
      std::string{port});
}

}  // namespace

ConnectionSettings::ConnectionSettings(std::string_view url, const StartupSettings& startup) {
  char* message = nullptr;
  const std::string text{url};
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options{
      PQconninfoParse(text.c_str(), &message), &PQconninfoFree};
  PQfreemem(message);  // it may contain the string with its secrets
  if (!options) {
    throw std::invalid_argument(
        "libpq cannot read the PostgreSQL connection string (not shown: it may hold a password)");
  }
  for (const auto* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) values_.emplace_back(option->keyword, option->val);
  }
  // The default asks for a server that accepts writes; a standby is good enough for reading.
  if (startup.read_only && get("target_session_attrs").empty())
    values_.emplace_back("target_session_attrs", "any");
  for (const auto& [key, value] : default_settings) {
    if (get(key).empty()) values_.emplace_back(key, value);
  }
  for (const auto port : split(get("port"))) require_port(port);
  std::string settings;
  if (startup.read_committed) settings += "-c default_transaction_isolation=read\\ committed";
  if (startup.read_only) settings += " -c default_transaction_read_only=on";
  if (settings.empty()) return;
  sends_options_ = true;
  const auto given =
      std::ranges::find(values_, "options", [](const auto& entry) { return entry.first; });
  if (given == values_.end()) {
    values_.emplace_back("options", settings);
  } else {
    given->second += " " + settings;
  }
}

void ConnectionSettings::set(std::string_view key, std::string_view value) {
  for (auto& [name, its_value] : values_) {
    if (name == key) its_value = value;
  }
}

std::string_view ConnectionSettings::get(std::string_view key) const {
  const auto found = std::ranges::find(
      values_, key, [](const auto& entry) -> std::string_view { return entry.first; });
  return found == values_.end() ? std::string_view{} : std::string_view{found->second};
}

std::chrono::milliseconds ConnectionSettings::connect_timeout(
    std::chrono::milliseconds fallback) const {
  const int seconds = std::atoi(std::string{get("connect_timeout")}.c_str());
  return seconds > 0 ? std::chrono::milliseconds{std::chrono::seconds{seconds}} : fallback;
}

std::vector<ConnectionSettings> ConnectionSettings::for_each_host() const {
  constexpr std::array<std::string_view, 3> lists{"host", "hostaddr", "port"};
  std::size_t count = 1;
  for (const auto key : lists) count = std::max(count, split(get(key)).size());
  const auto order = get("load_balance_hosts");
  const bool in_order =
      get("target_session_attrs") != "prefer-standby" && (order.empty() || order == "disable");
  if (count == 1 || !in_order) return {*this};
  std::vector<ConnectionSettings> each(count, *this);
  for (auto& [key, value] : values_) {
    const auto parts = split(value);
    const bool is_list = std::ranges::find(lists, key) != lists.end() && parts.size() > 1;
    if (!is_list) continue;
    if (parts.size() != count) return {*this};  // libpq refuses it, with the reason
    for (std::size_t i = 0; i < count; ++i) each[i].set(key, parts[i]);
  }
  return each;
}

std::vector<ConnectionSettings> ConnectionSettings::for_each_address(
    const std::vector<std::string>& addresses) const {
  if (addresses.empty()) return {*this};
  std::vector<ConnectionSettings> each(addresses.size(), *this);
  // libpq keeps the name for certificates and passwords.
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    each[i].values_.emplace_back("hostaddr", addresses[i]);
  }
  return each;
}

std::string ConnectionSettings::describe() const {
  const auto or_else = [this](std::string_view key, std::string_view fallback) {
    const auto value = get(key);
    const bool is_empty = value.find_first_not_of(',') == std::string_view::npos;
    return std::string{is_empty ? fallback : value};
  };
  return "postgresql:" + or_else("host", "local") + ":" + or_else("port", "5432") + "/" +
         or_else("dbname", "default");
}

std::unique_ptr<Connection> Connection::open(const ConnectionSettings& settings,
                                             const std::stop_token& stop,
                                             const ConnectOptions& options) {
  using Time = Steady::time_point;
  const auto open_address = [&](const ConnectionSettings& address, const ConnectOptions& its,
                                Time give_up_at) {
    return open_one(address, stop, its, give_up_at);
  };
  const auto open_host = [&](const ConnectionSettings& host, const ConnectOptions& its,
                             Time give_up_at) {
    return first_of(resolved(host, its, give_up_at, stop), its, give_up_at, open_address);
  };
  return first_of(settings.for_each_host(), options, Steady::now() + options.timeout, open_host);
}

std::unique_ptr<Connection> Connection::open_one(const ConnectionSettings& settings,
                                                 const std::stop_token& stop,
                                                 const ConnectOptions& options,
                                                 Steady::time_point give_up_at) {
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
  const Attempt attempt(native, give_up_at, stop);
  if (stop.stop_requested())
    throw Error({ErrorKind::cancelled, "", "connect"}, "stopped while connecting");
  if (attempt.failed) raise_failure(native, settings, options, attempt.reached_ssl);
  if (!attempt.connected) {
    throw Error({ErrorKind::connection_lost, "", "connect"},
                settings.describe() + ": the server did not answer within " +
                    std::to_string(options.timeout.count()) + " ms");
  }
  PQsetErrorVerbosity(native, PQERRORS_DEFAULT);
  PQsetnonblocking(native, 1);
  return connection;
}

}  // namespace dovetail::postgres

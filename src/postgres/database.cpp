#include "postgres/database.hpp"

#include <algorithm>

#include <optional>
#include <utility>

#include "core/text.hpp"
#include "dovetail/error.hpp"
#include "dovetail/transaction.hpp"
#include "postgres/sql.hpp"
#include "storage/retry.hpp"

namespace dovetail::postgres {
namespace {

using Scope = SessionCore::Scope;

/// Groups under way while commits are fast. Few large groups cost the server less than many small
/// ones; with a single one, it would wait for the client between two groups.
constexpr std::size_t group_commits = 2;
/// Where commits take longer than this, callers do not wait for them while a connection is free.
constexpr std::chrono::milliseconds group_commit_wait{1};
constexpr std::chrono::milliseconds brief_patience{500};

/// How long a call waits for a free connection.
std::chrono::milliseconds slot_patience(const storage::DatabaseOptions& options) {
  return std::max(options.retry_for, options.connect_timeout);
}

/// The pools share it.
storage::DatabaseOptions with_account(storage::DatabaseOptions options) {
  if (!options.account) options.account = std::make_shared<storage::ConnectionBudget::Account>();
  return options;
}

std::string quoted(const std::string& schema) {
  core::require_identifier("schema", schema);
  return '"' + schema + '"';
}

/// A transaction on a connection of the pool. The pool gets the connection back as soon as the
/// transaction ends.
class OwnedTransaction final : public storage::TransactionHandle {
 public:
  OwnedTransaction(Database& database, storage::Pool<Connection>::Lease connection, bool prepare,
                   std::stop_token stop)
      : database_(database),
        connection_(std::move(connection)),
        session_({**connection_, Scope::transaction, prepare, std::move(stop)}) {}
  ~OwnedTransaction() override {
    if (!connection_) return;
    try {
      session_.core().rollback();
    } catch (const std::exception&) {
      // The connection is lost, and the transaction with it.
    }
  }
  storage::WriteSession& session() override {
    require_open();
    session_.core().require_intact();
    return session_;
  }
  void commit() override {
    require_open();
    {
      const auto connection = std::exchange(connection_, std::nullopt);
      session_.core().commit();
    }
    database_.wake(session_);
    for (const auto& call : std::exchange(after_commit_, {})) call();
  }
  void after_commit(std::function<void()> call) override {
    after_commit_.push_back(std::move(call));
  }
  void rollback() override {
    require_open();
    const auto connection = std::exchange(connection_, std::nullopt);
    session_.core().rollback();
  }

 private:
  void require_open() const {
    if (!connection_) throw InvalidOperation("the transaction has ended already");
  }
  Database& database_;
  std::optional<storage::Pool<Connection>::Lease> connection_;
  WriteSession session_;
  std::vector<std::function<void()>> after_commit_;
};

/// The transaction that is open on a connection of the user.
class BorrowedTransaction final : public storage::BorrowedTransactionHandle {
 public:
  explicit BorrowedTransaction(PGconn* connection)
      : connection_(Connection::borrow(connection)),
        session_({*connection_, Scope::borrowed, false, {}}) {
    if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF) {
      throw InvalidOperation(
          "the borrowed connection is in pipeline mode: leave it before lending the connection");
    }
    const char* encoding = PQparameterStatus(connection, "client_encoding");
    if (encoding == nullptr || std::string_view{encoding} != "UTF8") {
      throw InvalidOperation("the borrowed connection's client_encoding must be UTF8");
    }
    require_open();
  }
  storage::WriteSession& session() override {
    require_open();
    return session_;
  }

 private:
  void require_open() const {
    switch (connection_->transaction_status()) {
      case PQTRANS_INTRANS:
        return;
      case PQTRANS_INERROR:
        throw InvalidOperation("the borrowed transaction has failed: roll it back");
      default:
        throw InvalidOperation(
            "no transaction is open on the borrowed connection: send BEGIN first");
    }
  }
  std::unique_ptr<Connection> connection_;
  WriteSession session_;
};

}  // namespace

Database::Database(std::string_view url, storage::DatabaseOptions options)
    : options_(with_account(std::move(options))),
      settings_(url, {.read_committed = !options_.pooled,
                      .read_only = options_.read_only && !options_.pooled}),
      name_(options_.label.empty() ? settings_.describe() : options_.label),
      connect_timeout_(settings_.connect_timeout(options_.connect_timeout)),
      texts_(sql::statements(), quoted(options_.schema)),
      pool_({.max_size = options_.max_connections,
             .patience = slot_patience(options_),
             .metrics = options_.metrics,
             .store = name_,
             .budget = options_.budget,
             .account = options_.account},
            options_.clock, options_.log,
            [this](const std::stop_token& stop, TimePoint until) { return connect(stop, until); }),
      service_pool_(
          {.max_size = options_.service_connections,
           .patience = slot_patience(options_),
           .metrics = options_.metrics,
           .store = name_,
           .budget = options_.budget,
           .use = storage::ConnectionBudget::Use::service,
           .account = options_.account},
          options_.clock, options_.log,
          [this](const std::stop_token& stop, TimePoint until) { return connect(stop, until); }),
      notifier_(options_.log, name_,
                [this](const Notifier::Queues& queues, const std::stop_token& stop) {
                  notify(queues, stop);
                }) {
  register_stores();
}

std::unique_ptr<Connection> Database::connect(const std::stop_token& stop, TimePoint give_up_at) {
  // An attempt that has begun may take its full time: the pool begins none after `give_up_at`. Only
  // opening a Platform has one limit for all attempts.
  auto timeout = connect_timeout_;
  if (!connected_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(give_up_at - std::chrono::steady_clock::now());
    timeout = std::min(timeout, std::max(left, least_connect_timeout));
  }
  auto connection = Connection::open(settings_, stop, {.timeout = timeout, .first = !connected_});
  connected_ = true;
  return connection;
}

void Database::require_connected(storage::Pool<Connection>& pool, const std::stop_token& stop) {
  process_.require();
  if (connected_) return;
  const auto first = pool.acquire(stop, std::chrono::steady_clock::now() + connect_timeout_);
}

storage::RetryPolicy Database::retry_policy(bool service) const {
  // The services of a group share threads with other databases, and try again by themselves.
  const bool brief = service && options_.budget;
  return {.patience = brief ? std::min(retry_for(), brief_patience) : retry_for(),
          .metrics = &options_.metrics,
          .store = name_};
}

void Database::read(const ReadBody& body, const storage::ReadOptions& options) {
  const auto stop = or_closing(options.stop);
  auto& pool = pool_for(options.service);
  require_connected(pool, stop);
  const auto give_up_at = std::chrono::steady_clock::now() +
                          (options.once ? std::chrono::milliseconds{0} : retry_for());
  storage::run_with_retry(
      *options_.clock, options_.log, retry_policy(options.service),
      {.repeatable = true, .once = options.once, .stop = stop}, [&](const storage::Attempt&) {
        auto connection = pool.acquire(stop, give_up_at);
        ReadSession session({*connection, Scope::read_only, !options_.pooled, stop});
        body(session);
        try {
          session.core().rollback();
        } catch (const Error&) {
          // The snapshot was read. The pool does not get this connection back.
        }
      });
}

void Database::write(const storage::WriteOptions& given, const WriteBody& body) {
  storage::require_writable(options_);
  auto options = given;
  options.stop = or_closing(given.stop);
  require_connected(pool_for(options.service), options.stop);
  const auto now = std::chrono::steady_clock::now();
  const auto give_up_at = options.since.value_or(now) + retry_for();
  auto policy = retry_policy(options.service);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up_at - now);
  policy.patience = std::clamp(left, std::chrono::milliseconds{0}, policy.patience);
  storage::run_with_retry(
      *options_.clock, options_.log, policy, options,
      [&](const storage::Attempt& attempt) { write_once(options, body, attempt, give_up_at); });
}

void Database::write_once(const storage::WriteOptions& options, const WriteBody& body,
                          const storage::Attempt& attempt, TimePoint give_up_at) {
  auto connection = pool_for(options.service).acquire(options.stop, give_up_at);
  // Behind a pooler, a single statement runs with the default isolation level of the server. BEGIN
  // sets the level that we need.
  const auto scope =
      options.single_statement && !options_.pooled ? Scope::autocommit : Scope::transaction;
  WriteSession session({*connection, scope, !options_.pooled, options.stop,
                        options.single_statement ? &notifier_ : nullptr});
  try {
    body(session, attempt);
  } catch (...) {
    try {
      session.core().rollback();
    } catch (const Error&) {
      // The connection is lost, and the transaction with it. The first failure is reported.
    }
    throw;
  }
  try {
    session.core().commit();
  } catch (const Error& error) {
    if (error.is_in_doubt()) wake(session);  // it may have committed, and then a retry wakes no one
    throw;
  }
  wake(session);
}

storage::GroupCommitOptions Database::group_commit() const {
  return {.transactions = std::min(group_commits, options_.max_connections),
          .most_transactions = options_.max_connections,
          .most_wait = group_commit_wait,
          .patience = options_.retry_for};
}

std::unique_ptr<storage::TransactionHandle> Database::begin() {
  storage::require_writable(options_);
  const auto stop = or_closing({});
  require_connected(pool_, stop);
  const auto give_up_at = std::chrono::steady_clock::now() + retry_for();
  return std::make_unique<OwnedTransaction>(*this, pool_.acquire(stop, give_up_at),
                                            !options_.pooled, stop);
}

std::optional<std::chrono::microseconds> Database::clock_lead(storage::ReadSession& session) {
  const auto result = ReadSession::of(session).run(texts_, sql::clock_lead, {});
  if (result.is_null(0, 0)) return std::nullopt;
  return std::chrono::microseconds{result.integer(0, 0)};
}

extern const std::string_view worker_grants;
extern const std::string_view producer_grants;

namespace {

void replace_all(std::string& text, std::string_view mark, const std::string& value) {
  for (auto at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + value.size())) {
    text.replace(at, mark.size(), value);
  }
}

std::string grants(const storage::GrantRequest& request) {
  std::string role = request.role;
  replace_all(role, "\"", "\"\"");
  std::string text{request.purpose == storage::GrantPurpose::worker ? worker_grants
                                                                    : producer_grants};
  replace_all(text, "{schema}", quoted(request.schema));
  replace_all(text, "{role}", '"' + role + '"');
  return text;
}

}  // namespace

const storage::Engine engine{
    .name = "postgres",
    .schemes = "postgresql,postgres",
    .open = [](std::string_view url,
               storage::DatabaseOptions options) -> std::unique_ptr<storage::Database> {
      return std::make_unique<Database>(url, std::move(options));
    },
    .grants = &grants};

}  // namespace dovetail::postgres

dovetail::Transaction dovetail::Transaction::borrow(pg_conn* connection) {
  return Transaction{std::make_unique<postgres::BorrowedTransaction>(connection)};
}

#include "postgres/database.hpp"

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

std::string quoted(const std::string& schema) {
  core::require_identifier("schema", schema);
  return '"' + schema + '"';
}

/// A transaction on a connection of the pool, which gets it back as soon as the transaction ends.
class OwnedTransaction final : public storage::TransactionHandle {
 public:
  OwnedTransaction(storage::Pool<Connection>::Lease connection, bool prepare)
      : connection_(std::move(connection)), session_({**connection_, Scope::transaction, prepare, {}}) {}
  ~OwnedTransaction() override {
    if (!connection_) return;
    try {
      session_.core().rollback();
    } catch (const std::exception&) {
      // The connection is gone, and the transaction with it.
    }
  }
  storage::WriteSession& session() override {
    require_open();
    session_.core().require_intact();
    return session_;
  }
  void commit() override {
    require_open();
    const auto connection = std::exchange(connection_, std::nullopt);
    session_.core().commit();
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
  std::optional<storage::Pool<Connection>::Lease> connection_;
  WriteSession session_;
};

/// The transaction that is open on a connection of the user's.
class BorrowedTransaction final : public storage::BorrowedTransactionHandle {
 public:
  explicit BorrowedTransaction(PGconn* connection)
      : connection_(Connection::borrow(connection)), session_({*connection_, Scope::borrowed, false, {}}) {
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
        throw InvalidOperation("no transaction is open on the borrowed connection: send BEGIN first");
    }
  }
  std::unique_ptr<Connection> connection_;
  WriteSession session_;
};

}  // namespace

Database::Database(std::string_view url, storage::DatabaseOptions options)
    : options_(std::move(options)),
      settings_(url),
      name_(settings_.describe()),
      texts_(sql::statements(), quoted(options_.schema)),
      pool_({.max_size = options_.max_connections}, options_.clock, options_.log,
            [this](const std::stop_token& stop) { return Connection::open(settings_, stop); }),
      outbox_(texts_),
      migrations_(texts_, quoted(options_.schema)) {}

void Database::read(const ReadBody& body, const std::stop_token& stop) {
  storage::run_with_retry(*options_.clock, options_.log, {}, {.repeatable = true, .stop = stop}, [&] {
    auto connection = pool_.acquire(stop);
    ReadSession session({*connection, Scope::read_only, !options_.pooled, stop});
    body(session);
    session.core().rollback();
  });
}

void Database::write(const storage::WriteOptions& options, const WriteBody& body) {
  storage::run_with_retry(*options_.clock, options_.log, {}, options, [&] { write_once(options, body); });
}

void Database::write_once(const storage::WriteOptions& options, const WriteBody& body) {
  auto connection = pool_.acquire(options.stop);
  const auto scope = options.single_statement ? Scope::autocommit : Scope::transaction;
  WriteSession session({*connection, scope, !options_.pooled, options.stop});
  try {
    body(session);
  } catch (...) {
    try {
      session.core().rollback();
    } catch (const Error&) {
      // The connection is gone, and the transaction with it; the first failure is the one to tell.
    }
    throw;
  }
  session.core().commit();
}

std::unique_ptr<storage::TransactionHandle> Database::begin() {
  return std::make_unique<OwnedTransaction>(pool_.acquire(), !options_.pooled);
}

const storage::Engine engine{
    .name = "postgres",
    .schemes = "postgresql,postgres",
    .open = [](std::string_view url, storage::DatabaseOptions options) -> std::unique_ptr<storage::Database> {
      return std::make_unique<Database>(url, std::move(options));
    }};

}  // namespace dovetail::postgres

dovetail::Transaction dovetail::Transaction::borrow(pg_conn* connection) {
  return Transaction{std::make_unique<postgres::BorrowedTransaction>(connection)};
}

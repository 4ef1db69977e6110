#include "postgres/database.hpp"

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

/// A transaction on a connection of the pool.
class OwnedTransaction final : public storage::TransactionHandle {
 public:
  OwnedTransaction(storage::Pool<Connection>::Lease connection, bool prepare)
      : connection_(std::move(connection)), session_({*connection_, Scope::transaction, prepare, {}}) {}
  ~OwnedTransaction() override {
    try {
      session_.core().rollback();
    } catch (const std::exception&) {
      // The connection is gone, and the transaction with it.
    }
  }
  storage::WriteSession& session() override {
    require_open();
    if (connection_->transaction_status() == PQTRANS_INERROR) {
      throw InvalidOperation("a statement of this transaction failed: roll it back");
    }
    return session_;
  }
  void commit() override {
    require_open();
    ended_ = true;
    session_.core().commit();
  }
  void rollback() override {
    require_open();
    ended_ = true;
    session_.core().rollback();
  }

 private:
  void require_open() const {
    if (ended_) throw InvalidOperation("the transaction has ended already");
  }
  storage::Pool<Connection>::Lease connection_;
  WriteSession session_;
  bool ended_ = false;
};

/// The transaction that is open on a connection of the user's.
class BorrowedTransaction final : public storage::TransactionHandle {
 public:
  explicit BorrowedTransaction(PGconn* connection)
      : connection_(Connection::borrow(connection)), session_({*connection_, Scope::borrowed, false, {}}) {
    if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF) {
      throw InvalidOperation(
          "the borrowed connection is in pipeline mode: leave it before lending the connection");
    }
    require_open();
  }
  storage::WriteSession& session() override {
    require_open();
    return session_;
  }
  void commit() override { refuse(); }
  void rollback() override { refuse(); }

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
  [[noreturn]] static void refuse() {
    throw InvalidOperation("a borrowed transaction is committed or rolled back by its owner");
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
            [this] { return Connection::open(settings_); }),
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

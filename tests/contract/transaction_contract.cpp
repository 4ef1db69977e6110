// Transactions, and the values of their statements, on both engines.
#include <limits>
#include <thread>

#include "support/backend.hpp"

namespace dovetail::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class TransactionContract : public BackendTest {
 protected:
  void SetUp() override {
    backend.sql(backend.is_postgres()
                    ? "create table " + items +
                          " (id bigint primary key, flag boolean, ratio double precision, "
                          "name text, data bytea, key uuid, at timestamptz, small integer)"
                    : "create table " + items +
                          " (id integer primary key, flag integer, ratio real, "
                          "name text, data blob, key blob, at integer, small integer) strict");
  }
  std::int64_t rows() { return backend.number("select count(*) from " + items); }

  Platform platform = backend.open();
  std::string items = backend.table("items");
};
DOVETAIL_CONTRACT(TransactionContract);

TEST_P(TransactionContract, EveryKindOfValueGoesInAndComesOut) {
  const Bytes bytes{std::byte{0}, std::byte{255}, std::byte{'\''}};
  const auto key = Uuid::v7();
  const WallTime at{std::chrono::microseconds{1'234'567'890'123'456}};
  auto transaction = platform.begin();
  const auto inserted = transaction.execute(
      "insert into " + items + " values ($1, $2, $3, $4, $5, $6, $7, $8)",
      std::numeric_limits<std::int64_t>::max(), true, -0.5, "na'me", bytes, key, at, 42);
  EXPECT_EQ(inserted, 1U);
  const auto found = transaction.query("select id, flag, ratio, name, data, key, at, small from " +
                                           items + " where small = $1 and name = $2",
                                       42, std::string{"na'me"});
  ASSERT_THAT(found, SizeIs(1));
  const auto& row = found[0];
  EXPECT_EQ(row.get<std::int64_t>(0), std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(row.get<bool>(1));
  EXPECT_EQ(row.get<double>(2), -0.5);
  EXPECT_EQ(row.get<std::string>(3), "na'me");
  EXPECT_EQ(row.get<Bytes>(4), bytes);
  EXPECT_EQ(row.get<Uuid>(5), key);
  EXPECT_EQ(row.get<WallTime>(6), at);
  EXPECT_EQ(row.get<std::int64_t>(7), 42);
}

TEST_P(TransactionContract, AbsentValuesAreNull) {
  auto transaction = platform.begin();
  transaction.execute("insert into " + items + " (id, name, at) values ($1, $2, $3)", 1,
                      std::optional<std::string>{}, nullptr);
  const auto row = transaction.query("select name, at from " + items).at(0);
  EXPECT_TRUE(row.is_null(0));
  EXPECT_EQ(row.get<std::optional<std::string>>(0), std::nullopt);
  EXPECT_THROW((void)row.get<std::string>(0), InvalidOperation);
}

TEST_P(TransactionContract, ParametersGoByTheirNumbersNotTheirPlaces) {
  auto transaction = platform.begin();
  transaction.execute("insert into " + items + " (name, id) values ($2, $1)", 5, "five");
  const auto row = transaction.query("select id, name from " + items).at(0);
  EXPECT_EQ(row.get<std::int64_t>(0), 5);
  EXPECT_EQ(row.get<std::string>(1), "five");
}

TEST_P(TransactionContract, ExecuteAnswersHowManyRowsChanged) {
  auto transaction = platform.begin();
  for (int i = 0; i < 3; ++i) transaction.execute("insert into " + items + " (id) values ($1)", i);
  EXPECT_EQ(transaction.execute("update " + items + " set small = 1 where id < 2"), 2U);
  EXPECT_EQ(transaction.execute("delete from " + items), 3U);
}

TEST_P(TransactionContract, AnEndedTransactionTakesNothingMore) {
  auto transaction = platform.begin();
  transaction.execute("insert into " + items + " (id) values (1)");
  transaction.commit();
  EXPECT_THROW(transaction.execute("insert into " + items + " (id) values (2)"), InvalidOperation);
  EXPECT_THROW(transaction.commit(), InvalidOperation);
  EXPECT_EQ(rows(), 1);
}

TEST_P(TransactionContract, AConstraintViolationIsOneAndNamesItsCode) {
  auto transaction = platform.begin();
  transaction.execute("insert into " + items + " (id) values (1)");
  try {
    transaction.execute("insert into " + items + " (id) values (1)");
    FAIL() << "a second row with the same key";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::constraint);
    EXPECT_EQ(error.native_code(), backend.is_postgres() ? "23505" : "1555");
    EXPECT_EQ(error.statement(), "sql");
    EXPECT_FALSE(error.is_transient());
  }
}

TEST_P(TransactionContract, AFailedStatementDoomsItsTransaction) {
  auto transaction = platform.begin();
  transaction.execute("insert into " + items + " (id) values (1)");
  EXPECT_THROW(transaction.execute("insert into " + items + " (id) values (1)"), Error);
  EXPECT_THROW(transaction.execute("insert into " + items + " (id) values (2)"), InvalidOperation);
  EXPECT_THROW(platform.outbox().enqueue(transaction, {.topic = "t"}), InvalidOperation);
  EXPECT_THROW(transaction.commit(), InvalidOperation);
  EXPECT_EQ(rows(), 0);
  EXPECT_NO_THROW(platform.outbox().enqueue({.topic = "t"})) << "the next one starts afresh";

  auto rolled_back = platform.begin();
  EXPECT_THROW(rolled_back.execute("no such statement"), Error);
  EXPECT_NO_THROW(rolled_back.rollback());
}

TEST_P(TransactionContract, AMovedTransactionIsTheSameOne) {
  auto first = platform.begin();
  first.execute("insert into " + items + " (id) values (1)");
  auto second = std::move(first);
  second.execute("insert into " + items + " (id) values (2)");
  std::jthread([moved = std::move(second)]() mutable { moved.commit(); }).join();
  EXPECT_EQ(rows(), 2);
}

TEST_P(TransactionContract, NothingIsBorrowedWhereNoTransactionIsOpen) {
  UserConnection user(backend);
  EXPECT_THROW((void)user.borrow(), InvalidOperation);
  user.execute(backend.is_postgres() ? "begin" : "begin immediate");
  auto transaction = user.borrow();
  user.execute("rollback");
  EXPECT_THROW(platform.outbox().enqueue(transaction, {.topic = "t"}), InvalidOperation);
}

TEST_P(TransactionContract, ATransactionOfTheOtherEngineIsRefused) {
  Backend other(backend.is_postgres() ? BackendKind::sqlite : BackendKind::postgres);
  auto elsewhere = other.open();
  auto transaction = elsewhere.begin();
  EXPECT_THROW(platform.outbox().enqueue(transaction, {.topic = "t"}), InvalidOperation);
}

TEST_P(TransactionContract, ReadSessionsCannotWrite) {
  auto database = backend.open_database();
  try {
    database->read([&](storage::ReadSession& session) {
      (void)session.query("insert into " + items + " (id) values (1) returning id", {});
    });
    FAIL() << "a read session wrote";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::read_only);
  }
  EXPECT_EQ(rows(), 0);
}

TEST_P(TransactionContract, AReadSessionSeesOneSnapshot) {
  auto database = backend.open_database();
  database->read([&](storage::ReadSession& session) {
    const auto count = [&] {
      return session.query("select count(*) from " + items, {}).at(0).get<std::int64_t>(0);
    };
    EXPECT_EQ(count(), 0);
    backend.sql("insert into " + items + " (id) values (1)");
    EXPECT_EQ(count(), 0);
  });
  EXPECT_EQ(rows(), 1);
}

TEST_P(TransactionContract, AFailedBodyLeavesNothingBehindAndOthersGoOn) {
  auto database = backend.open_database();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&, i] {
      const auto write = [&] {
        database->write({}, [&](storage::WriteSession& session) {
          const std::array<Parameter, 1> id{Parameter(i)};
          session.execute("insert into " + items + " (id) values ($1)", id);
          if (i % 3 == 0) throw std::runtime_error("no");
        });
      };
      if (i % 3 == 0) {
        EXPECT_THROW(write(), std::runtime_error);
      } else {
        EXPECT_NO_THROW(write());
      }
    });
  }
  threads.clear();
  EXPECT_EQ(rows(), 8);
  EXPECT_EQ(backend.number("select count(*) from " + items + " where id % 3 = 0"), 0);
}

TEST_P(TransactionContract, OneStatementAtATime) {
  auto transaction = platform.begin();
  EXPECT_ANY_THROW(
      transaction.execute("insert into " + items + " (id) values (1); delete from " + items));
}

TEST_P(TransactionContract, AMissingParameterIsAnError) {
  auto transaction = platform.begin();
  EXPECT_ANY_THROW(transaction.execute("insert into " + items + " (id, small) values ($1, $2)", 1));
}

}  // namespace
}  // namespace dovetail::testing

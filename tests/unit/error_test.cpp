#include "dovetail/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "postgres/error.hpp"
#include "sqlite/error.hpp"
#include "unit/error_kinds.hpp"

namespace {

using namespace dovetail;
using dovetail::testing::all_error_kinds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr bool decides = true;

Error error_of(ErrorKind kind) {
  return {{kind, "40001", "outbox_claim"}, "no luck"};
}

TEST(ErrorKind, HasAWordOfItsOwn) {
  std::set<std::string_view> words;
  for (const auto kind : all_error_kinds()) words.insert(to_string(kind));
  EXPECT_EQ(words.size(), all_error_kinds().size());
}

TEST(ErrorKind, IsSpelledLikeItsEnumerator) {
  EXPECT_EQ(to_string(ErrorKind::transient), "transient");
  EXPECT_EQ(to_string(ErrorKind::connection_lost), "connection_lost");
  EXPECT_EQ(to_string(ErrorKind::commit_in_doubt), "commit_in_doubt");
  EXPECT_EQ(to_string(ErrorKind::disk_full), "disk_full");
  EXPECT_EQ(to_string(ErrorKind::other), "other");
}

TEST(Error, IsTransientOnlyWhenNothingTookEffectAndAnotherTryMayHelp) {
  const std::set transient{ErrorKind::transient, ErrorKind::lock_timeout, ErrorKind::serialization,
                           ErrorKind::deadlock, ErrorKind::connection_lost};
  for (const auto kind : all_error_kinds()) {
    EXPECT_EQ(error_of(kind).is_transient(), transient.contains(kind)) << to_string(kind);
  }
}

TEST(Error, IsInDoubtOnlyWhenTheCommitIs) {
  for (const auto kind : all_error_kinds()) {
    EXPECT_EQ(error_of(kind).is_in_doubt(), kind == ErrorKind::commit_in_doubt) << to_string(kind);
  }
}

TEST(Error, KeepsItsDetails) {
  const Error error{{ErrorKind::constraint, "23505", "outbox_enqueue"}, "duplicate key"};
  EXPECT_EQ(error.kind(), ErrorKind::constraint);
  EXPECT_EQ(error.native_code(), "23505");
  EXPECT_EQ(error.statement(), "outbox_enqueue");
}

TEST(Error, SaysStatementMessageAndNativeCode) {
  const Error error{{ErrorKind::constraint, "23505", "outbox_enqueue"}, "duplicate key"};
  EXPECT_THAT(error.what(), HasSubstr("outbox_enqueue"));
  EXPECT_THAT(error.what(), HasSubstr("duplicate key"));
  EXPECT_THAT(error.what(), HasSubstr("23505"));
}

TEST(Error, WithoutNativeCodeSaysNoEmptyBrackets) {
  const Error error{{ErrorKind::connection_lost, "", "commit"}, "the connection broke"};
  EXPECT_THAT(error.what(), HasSubstr("commit"));
  EXPECT_THAT(error.what(), Not(HasSubstr("[")));
}

/// Native codes, and the kind of each. The kind does not depend on the statement.
template <class Code>
using Meanings = std::map<ErrorKind, std::vector<Code>>;

template <class Code>
void expect_meanings(ErrorKind (*classify)(Code, bool), const Meanings<Code>& meanings) {
  for (const auto& [kind, codes] : meanings) {
    for (const auto code : codes) {
      EXPECT_EQ(classify(code, !decides), kind) << code;
      EXPECT_EQ(classify(code, decides), kind) << code << " at commit";
    }
  }
}

TEST(PostgresClassify, KnowsWhatASqlstateMeans) {
  expect_meanings<std::string_view>(
      &postgres::classify,
      {{ErrorKind::transient, {"53000", "53200", "53300", "53400", "55006"}},
       {ErrorKind::lock_timeout, {"55P03"}},
       {ErrorKind::constraint, {"23000", "23502", "23503", "23505", "23514", "23P01"}},
       {ErrorKind::serialization, {"40001"}},
       {ErrorKind::deadlock, {"40P01"}},
       {ErrorKind::commit_in_doubt, {"40003"}},
       {ErrorKind::disk_full, {"53100"}},
       {ErrorKind::read_only, {"25006"}},
       {ErrorKind::permission, {"42501", "28000", "28P01"}},
       {ErrorKind::cancelled, {"57014"}},
       {ErrorKind::schema, {"42P01", "42883", "42703", "3F000"}},
       {ErrorKind::invalid, {"22001", "22003", "22021", "22P02", "54000", "54001"}},
       {ErrorKind::corrupt, {"XX001", "XX002"}},
       {ErrorKind::other, {"42601", "0A000", "25P02", "26000", "57000", "58030", "XX000"}}});
}

TEST(PostgresClassify, ABrokenConnectionIsLostBeforeCommitAndInDoubtAtIt) {
  // No SQLSTATE, connection exceptions, and codes with which the server ends a session.
  for (const auto* code : {"", "08000", "08001", "08003", "08006", "08P01", "57P01", "57P02",
                           "57P03", "57P04", "57P05"}) {
    EXPECT_EQ(postgres::classify(code, !decides), ErrorKind::connection_lost) << code;
    EXPECT_EQ(postgres::classify(code, decides), ErrorKind::commit_in_doubt) << code;
  }
}

TEST(PostgresClassify, UnknownCodesAreOther) {
  for (const auto* code : {"99999", "P0001", "2", "XXXXX"}) {
    EXPECT_EQ(postgres::classify(code, !decides), ErrorKind::other) << code;
  }
}

TEST(SqliteClassify, KnowsWhatAResultCodeMeans) {
  expect_meanings<int>(
      &sqlite::classify,
      {{ErrorKind::transient,
        {SQLITE_BUSY, SQLITE_BUSY_RECOVERY, SQLITE_BUSY_TIMEOUT, SQLITE_LOCKED,
         SQLITE_LOCKED_SHAREDCACHE, SQLITE_PROTOCOL, SQLITE_NOMEM, SQLITE_IOERR_NOMEM}},
       {ErrorKind::constraint,
        {SQLITE_CONSTRAINT, SQLITE_CONSTRAINT_UNIQUE, SQLITE_CONSTRAINT_PRIMARYKEY,
         SQLITE_CONSTRAINT_CHECK, SQLITE_CONSTRAINT_NOTNULL, SQLITE_CONSTRAINT_FOREIGNKEY}},
       {ErrorKind::serialization, {SQLITE_BUSY_SNAPSHOT}},
       {ErrorKind::disk_full, {SQLITE_FULL}},
       {ErrorKind::read_only,
        {SQLITE_READONLY, SQLITE_READONLY_DIRECTORY, SQLITE_READONLY_DBMOVED}},
       {ErrorKind::permission, {SQLITE_PERM, SQLITE_AUTH, SQLITE_AUTH_USER}},
       {ErrorKind::cancelled, {SQLITE_INTERRUPT}},
       {ErrorKind::invalid, {SQLITE_TOOBIG, SQLITE_MISMATCH, SQLITE_RANGE}},
       {ErrorKind::corrupt,
        {SQLITE_CORRUPT, SQLITE_CORRUPT_INDEX, SQLITE_CORRUPT_VTAB, SQLITE_NOTADB}},
       // A missing table is SQLITE_ERROR, like a syntax error. No code distinguishes them, so
       // `schema` has no code.
       {ErrorKind::other, {SQLITE_ERROR, SQLITE_MISUSE, SQLITE_INTERNAL, SQLITE_CANTOPEN, 0xFF}}});
}

TEST(SqliteClassify, AnIoFailureLeavesOnlyACommitInDoubt) {
  for (const int code : {SQLITE_IOERR, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_READ}) {
    EXPECT_EQ(sqlite::classify(code, !decides), ErrorKind::other) << code;
    EXPECT_EQ(sqlite::classify(code, decides), ErrorKind::commit_in_doubt) << code;
  }
}

Error raised(sqlite3* connection, int code, std::string_view statement) {
  try {
    sqlite::raise(connection, code, statement);
  } catch (const Error& error) {
    return error;
  }
}

TEST(SqliteRaise, WithoutAConnectionSpeaksForTheCode) {
  const auto error = raised(nullptr, SQLITE_FULL, "commit");
  EXPECT_EQ(error.kind(), ErrorKind::disk_full);
  EXPECT_EQ(error.native_code(), std::to_string(SQLITE_FULL));
  EXPECT_EQ(error.statement(), "commit");
}

TEST(SqliteRaise, TakesTheExtendedCodeOfTheConnection) {
  sqlite3* opened = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &opened), SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection{opened, &sqlite3_close};
  const auto* twice = "create table t (a unique); insert into t values (1), (1)";
  ASSERT_EQ(sqlite3_exec(opened, twice, nullptr, nullptr, nullptr), SQLITE_CONSTRAINT);
  const auto error = raised(opened, SQLITE_CONSTRAINT, "insert_twice");
  EXPECT_EQ(error.kind(), ErrorKind::constraint);
  EXPECT_EQ(error.native_code(), std::to_string(SQLITE_CONSTRAINT_UNIQUE));
  EXPECT_THAT(error.what(), HasSubstr("insert_twice"));
}

TEST(SchemaMismatch, IsAnInvalidOperationAndNoError) {
  static_assert(std::is_base_of_v<InvalidOperation, SchemaMismatch>);
  static_assert(!std::is_base_of_v<Error, InvalidOperation>);
  EXPECT_THROW(throw SchemaMismatch("old"), InvalidOperation);
}

}  // namespace

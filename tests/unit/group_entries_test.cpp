#include "group/entries.hpp"

#include <stdexcept>

namespace dovetail::group {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string complaint_about(const DatabaseEntry& entry) {
  try {
    check_entry(entry);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(GroupEntries, GoodEntriesAreAccepted) {
  const std::string longest(200, 'k');
  std::string two_bytes_each;
  for (int i = 0; i < 200; ++i) two_bytes_each += "\xC3\xBC";
  for (const auto& key : {std::string{"a"}, longest, two_bytes_each, std::string{"a b/c"}}) {
    EXPECT_EQ(complaint_about({.key = key, .url = "sqlite:a.db"}), "");
  }
  EXPECT_EQ(complaint_about({.key = "a", .url = "postgresql://h/d", .schema = "jobs"}), "");
  EXPECT_EQ(complaint_about({.key = "a", .url = "postgres://u:p@h:1/d"}), "");
}

TEST(GroupEntries, ABadEntryIsRefusedWithItsCause) {
  struct Case {
    DatabaseEntry entry;
    std::string cause;
  };
  const std::vector<Case> cases{
      {{.key = "", .url = "sqlite:a.db"}, "1 to 200 characters"},
      {{.key = std::string(201, 'k'), .url = "sqlite:a.db"}, "has 201"},
      {{.key = "a\nb", .url = "sqlite:a.db"}, "the key \"a?b\" contains a control character"},
      {{.key = "a\x7F", .url = "sqlite:a.db"}, "control character"},
      {{.key = "a\xC2\x85", .url = "sqlite:a.db"}, "control character"},
      {{.key = "a\xFF", .url = "sqlite:a.db"}, "not UTF-8"},
      {{.key = std::string("a\0b", 3), .url = "sqlite:a.db"}, "not UTF-8 without NUL"},
      {{.key = "a", .url = ""}, "the database \"a\": a database URL starts with"},
      {{.key = "a", .url = "mysql://h/d"}, "a database URL starts with"},
      {{.key = "a", .url = "sqlite::memory:"}, "cannot be shared"},
      {{.key = "a", .url = "postgresql://h/d?colour=red"}, "libpq cannot read"},
      {{.key = "a", .url = "sqlite:a.db", .schema = "Jobs; drop"}, "schema"},
  };
  for (const auto& [entry, cause] : cases) EXPECT_THAT(complaint_about(entry), HasSubstr(cause));
}

TEST(GroupEntries, ComplaintsContainNoSecrets) {
  for (const auto* url : {"mysql://u:swordfish@h/d", "postgresql://u:swordfish@h/d?colour=red",
                          "user=u password=swordfish"}) {
    EXPECT_THAT(complaint_about({.key = "a", .url = url}),
                AllOf(Not(HasSubstr("swordfish")), Not(IsEmpty())));
  }
}

TEST(GroupEntries, ABadEntryDoesNotSpoilTheOthers) {
  const DatabaseEntry first{.key = "b", .url = "sqlite:b.db"};
  const DatabaseEntry second{.key = "a", .url = "sqlite:a.db"};
  const auto checked = checked_entries({first, {.key = "bad", .url = "nonsense:"}, second});
  EXPECT_THAT(checked.good, ElementsAre(first, second));
  EXPECT_THAT(checked.complaints, ElementsAre(HasSubstr("\"bad\"")));
}

TEST(GroupEntries, EntriesThatAreEqualCountAsOne) {
  const DatabaseEntry entry{.key = "a", .url = "sqlite:a.db"};
  const auto checked = checked_entries({entry, entry});
  EXPECT_THAT(checked.good, ElementsAre(entry));
  EXPECT_THAT(checked.complaints, IsEmpty());
}

TEST(GroupEntries, DifferentEntriesWithOneKeyAreNamedAndNotUsed) {
  const DatabaseEntry other{.key = "b", .url = "sqlite:b.db"};
  const auto checked = checked_entries({{.key = "a", .url = "postgresql://u:swordfish@one/d"},
                                        other,
                                        {.key = "a", .url = "postgresql://u:swordfish@two/d"}});
  EXPECT_THAT(checked.good, ElementsAre(other));
  EXPECT_THAT(checked.complaints,
              ElementsAre(AllOf(HasSubstr("\"a\""), HasSubstr("postgresql:one:5432/d and "),
                                HasSubstr("postgresql:two:5432/d"), Not(HasSubstr("swordfish")))));
}

TEST(GroupEntries, EntriesThatDifferInTheSchemaOrInSecretsAreDifferent) {
  const auto schemas = checked_entries(
      {{.key = "a", .url = "sqlite:a.db"}, {.key = "a", .url = "sqlite:a.db", .schema = "jobs"}});
  EXPECT_THAT(schemas.good, IsEmpty());
  EXPECT_THAT(schemas.complaints, ElementsAre(HasSubstr("with the schema jobs")));
  const auto secrets = checked_entries(
      {{.key = "a", .url = "postgresql://u:x@h/d"}, {.key = "a", .url = "postgresql://u:y@h/d"}});
  EXPECT_THAT(secrets.good, IsEmpty());
  EXPECT_THAT(secrets.complaints, ElementsAre(HasSubstr("in parts that are not shown")));
}

}  // namespace
}  // namespace dovetail::group

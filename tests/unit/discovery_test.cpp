#include "dovetail/discovery.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/backend.hpp"

namespace dovetail {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FileDiscoveryTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }
  std::vector<DatabaseEntry> find() { return discovery->find({}); }
  std::string error_of(const std::string& text) {
    write(text);
    try {
      const auto entries = find();
      return entries.empty() ? "" : entries.back().error;  // of a bad entry
    } catch (const InvalidOperation& error) {
      return error.what();
    }
  }

  testing::TemporaryDirectory directory;
  std::string path = (directory.path() / "tenants.toml").string();
  std::shared_ptr<DatabaseDiscovery> discovery = file_discovery(path);
};

TEST_F(FileDiscoveryTest, ReadsTheTableOfDatabasesInTheOrderOfTheFile) {
  write(R"(title = "other tables and fields are not ours"
[databases]
tenant-b = "postgresql://h/b"
"tenant a" = { url = "sqlite:/var/lib/a.db", schema = "jobs" }
[databases.c]
url = "sqlite:c.db"
)");
  EXPECT_THAT(find(), ElementsAre(DatabaseEntry{"tenant-b", "postgresql://h/b", ""},
                                  DatabaseEntry{"tenant a", "sqlite:/var/lib/a.db", "jobs"},
                                  DatabaseEntry{"c", "sqlite:c.db", ""}));
  write("[databases]\n");
  EXPECT_THAT(find(), IsEmpty());
}

TEST_F(FileDiscoveryTest, ErrorsNameTheFileAndTheLine) {
  struct Case {
    std::string text;
    std::string error;
  };
  const std::vector<Case> cases{
      {"", ": there is no table [databases]"},
      {"databases = 3\n", ":1: databases must be a table"},
      {"[databases]\na = 3\n", ":2: a must be a URL"},
      {"[databases]\na = { schema = 's' }\n", ":2: a has no url"},
      {"[databases]\n\na = { url = 7 }\n", ":3: a.url must be text"},
      {"[databases.a]\nurl = 'sqlite:a.db'\ncolour = 'red'\n", ":3: a.colour is unknown"},
      {"[databases]\na = 'sqlite:a.db'\na = 'sqlite:b.db'\n", ":3: "},
      {"[databases]\na = 'sqlite:a.db\n", ":2: "},
  };
  for (const auto& [text, error] : cases) EXPECT_THAT(error_of(text), HasSubstr(path + error));
}

TEST_F(FileDiscoveryTest, ABadEntryDoesNotAffectTheOthers) {
  write(
      "[databases]\na = 'sqlite:a.db'\nb = 5\nc = { url = 'sqlite:c.db', skema = 's' }\n"
      "d = 'sqlite:d.db'\n");
  const auto entries = find();
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_EQ(entries[0], (DatabaseEntry{"a", "sqlite:a.db", ""}));
  EXPECT_EQ(entries[1].key, "b");
  EXPECT_THAT(entries[1].error, HasSubstr(":3: b must be a URL"));
  EXPECT_THAT(entries[2].error, HasSubstr(":4: c.skema is unknown"));
  EXPECT_THAT(entries[2].url, IsEmpty());
  EXPECT_EQ(entries[3], (DatabaseEntry{"d", "sqlite:d.db", ""}));
}

TEST_F(FileDiscoveryTest, ErrorsContainNoSecrets) {
  for (const auto* line :
       {"a = postgresql://u:swordfish@h/d", "a = 'postgresql://u:swordfish@h/d",
        "a = { url = 'postgresql://u:swordfish@h/d', port = 'swordfish' }",
        "a = ['postgresql://u:swordfish@h/d']", "a = 'x'\na = 'postgresql://u:swordfish@h/d'"}) {
    EXPECT_THAT(error_of("[databases]\n" + std::string{line} + "\n"),
                AllOf(Not(IsEmpty()), Not(HasSubstr("swordfish"))));
  }
}

TEST_F(FileDiscoveryTest, AFileThatCannotBeReadIsAnError) {
  const auto error = [](const std::string& file) -> std::string {
    try {
      (void)file_discovery(file)->find({});
    } catch (const InvalidOperation& problem) {
      return problem.what();
    }
    return "";
  };
  EXPECT_EQ(error(path), "cannot read " + path + ": No such file or directory");
  EXPECT_THAT(error(directory.path().string()), EndsWith("Is a directory"));
  EXPECT_THROW(file_discovery(""), std::invalid_argument);
}

TEST_F(FileDiscoveryTest, AChangeOfTheFileIsNoticedOnce) {
  const auto inode = [this] {
    struct stat found {};
    EXPECT_EQ(::stat(path.c_str(), &found), 0);
    return found.st_ino;
  };
  write("[databases]\n");
  EXPECT_FALSE(discovery->has_changed()) << "nobody has asked for the list yet";
  (void)find();
  EXPECT_FALSE(discovery->has_changed());
  write("[databases]\na = 'sqlite:a.db'\n");  // another size
  EXPECT_TRUE(discovery->has_changed());
  (void)find();
  EXPECT_FALSE(discovery->has_changed());
  const auto time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, time + std::chrono::seconds{1});
  EXPECT_TRUE(discovery->has_changed());
  (void)find();
  // The file is replaced by one of the same size and time, as in deployments.
  const auto before = inode();
  std::filesystem::copy_file(path, path + ".new");
  std::filesystem::last_write_time(path + ".new", time + std::chrono::seconds{1});
  std::filesystem::rename(path + ".new", path);
  ASSERT_NE(inode(), before);
  EXPECT_TRUE(discovery->has_changed());
  (void)find();
  EXPECT_FALSE(discovery->has_changed());
  std::filesystem::remove(path);
  EXPECT_TRUE(discovery->has_changed());
  EXPECT_THROW(find(), InvalidOperation);
  EXPECT_FALSE(discovery->has_changed()) << "it was told";
}

TEST(FunctionDiscovery, CallsItsFunction) {
  const DatabaseEntry entry{.key = "a", .url = "sqlite:a.db"};
  const auto discovery = function_discovery([&] { return std::vector{entry}; });
  EXPECT_THAT(discovery->find({}), ElementsAre(entry));
  EXPECT_FALSE(discovery->has_changed());
  EXPECT_THROW(function_discovery({}), std::invalid_argument);
}

}  // namespace
}  // namespace dovetail

// main() of every test program. If DOVETAIL_STATEMENTS_RUN names a directory, main() writes the
// names of the statements that ran to a file in it.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "postgres/sql.hpp"
#include "sqlite/sql.hpp"

namespace {

void note_statements(std::ofstream& out, const char* engine,
                     std::span<const dovetail::storage::Statement* const> statements) {
  for (const auto* statement : statements) {
    if (statement->runs > 0) out << engine << ' ' << statement->name << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  const int result = RUN_ALL_TESTS();
  if (const char* directory = std::getenv("DOVETAIL_STATEMENTS_RUN")) {
    std::filesystem::create_directories(directory);
    std::ofstream out{std::filesystem::path{directory} / dovetail::Uuid::random().to_string()};
    note_statements(out, "postgres", dovetail::postgres::sql::statements());
    note_statements(out, "sqlite", dovetail::sqlite::sql::statements());
  }
  return result;
}

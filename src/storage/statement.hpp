// A statement with a name. The name is that of the block in the .sql file, and the label in errors,
// logs and metrics.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.hpp"

namespace dovetail::storage {

struct Statement {
  Statement(std::size_t i, std::string_view n, std::string_view t, std::string_view c)
      : index(i), name(n), text(t), columns(c) {}

  std::size_t index;  // position among the engine's statements
  std::string_view name;
  std::string_view text;  // {schema} stands for the name of the schema
  /// The names that `-- returns:` declares, joined by ", "; empty where it declares none.
  std::string_view columns;
  mutable std::atomic<std::uint64_t> runs{0};
};

/// The texts of all statements of an engine, with the name of the schema.
class StatementTexts {
 public:
  StatementTexts(std::span<const Statement* const> statements, std::string_view schema) {
    texts_.reserve(statements.size());
    for (const auto* statement : statements)
      texts_.push_back(core::with_schema(statement->text, schema));
  }
  [[nodiscard]] const std::string& of(const Statement& statement) const {
    return texts_[statement.index];
  }

 private:
  std::vector<std::string> texts_;
};

}  // namespace dovetail::storage

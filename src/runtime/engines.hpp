// The engines of this build. CMake writes the list (dovetail_add_engine).
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "storage/database.hpp"

namespace dovetail::runtime {

[[nodiscard]] std::span<const storage::Engine* const> engines();

/// The engine that `url` names. Throws std::invalid_argument for a scheme that no engine of this
/// build knows.
[[nodiscard]] const storage::Engine& engine_for(std::string_view url);

/// Opens the database that `url` names. Throws std::invalid_argument for a scheme that no engine of
/// this build knows.
[[nodiscard]] std::unique_ptr<storage::Database> open_database(std::string_view url,
                                                               storage::DatabaseOptions options);

}  // namespace dovetail::runtime

// Classifies the failures of PostgreSQL by their SQLSTATE. No other place does.
#pragma once

#include <string>
#include <string_view>

#include "dovetail/error.hpp"

namespace dovetail::postgres {

/// `sqlstate` is empty if the connection broke and the server sent no error. `decides`: the
/// statement decides the fate of a transaction. It is a COMMIT, or a statement outside a
/// transaction.
[[nodiscard]] ErrorKind classify(std::string_view sqlstate, bool decides);

}  // namespace dovetail::postgres

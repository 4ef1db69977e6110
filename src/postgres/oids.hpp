// The type numbers of PostgreSQL's built-in types; they are fixed for ever.
#pragma once

namespace dovetail::postgres::oid {

inline constexpr unsigned unknown = 0;
inline constexpr unsigned boolean = 16;
inline constexpr unsigned bytea = 17;
inline constexpr unsigned single_char = 18;
inline constexpr unsigned name = 19;
inline constexpr unsigned int8 = 20;
inline constexpr unsigned int2 = 21;
inline constexpr unsigned int4 = 23;
inline constexpr unsigned text = 25;
inline constexpr unsigned oid = 26;
inline constexpr unsigned tid = 27;
inline constexpr unsigned json = 114;
inline constexpr unsigned float4 = 700;
inline constexpr unsigned float8 = 701;
inline constexpr unsigned unknown_literal = 705;
inline constexpr unsigned text_array = 1009;
inline constexpr unsigned tid_array = 1010;
inline constexpr unsigned int8_array = 1016;
inline constexpr unsigned bpchar = 1042;
inline constexpr unsigned varchar = 1043;
inline constexpr unsigned timestamptz = 1184;
inline constexpr unsigned timestamptz_array = 1185;
inline constexpr unsigned uuid = 2950;
inline constexpr unsigned uuid_array = 2951;
inline constexpr unsigned jsonb = 3802;

}  // namespace dovetail::postgres::oid

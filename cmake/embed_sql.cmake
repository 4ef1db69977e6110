# dovetail_embed_sql runs this script with -P. A file under sql/ is a sequence of blocks:
#   -- name: join_start
#   -- returns: id uuid, created boolean
#   <one SQL statement>
# The text is embedded byte for byte: the prepared statement is the one in the file.
#
# `-- returns:` declares the columns of the result. They become an enum of positions
# (`sql::columns::join_start::created`) that the stores use. If both engines declare the columns of
# a statement, they must declare the same ones, or the build fails. `-- returns here:` declares
# columns that only this engine has. A block with the columns of another block says
# `-- returns: as join_find`. Long lists take several such lines.
#
# sql/queue.sql begins with `-- queues: outbox inbox`. Each of its blocks `{queue}_claim` becomes a
# statement for each queue, and a `struct Queue` has the statements and the name of one queue
# (`sql::outbox.claim`). Other files with the same first line add to the same struct.
#
# A migration is a file NNNN_name.sql, or a folder NNNN_name/ of numbered files (1_tables.sql,
# 2_steps.sql), which are joined in that order. The same holds for templates.
#
# The line `-- template: queue_1 queue=inbox` of a migration is replaced by the template
# migrations/templates/queue_1, with `inbox` in place of `{queue}`. The checksum is that of the
# whole text.
#
# The line `-- compatible-with: 7` of a migration says that a library which knows the migrations up
# to 7 works with it, too. A migration without that line needs a library that knows it.
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${OUTPUT_DIR})
file(GLOB sql_files ${SOURCE_DIR}/sql/*.sql)
file(GLOB migration_files ${SOURCE_DIR}/migrations/[0-9]*)
list(SORT sql_files)
list(SORT migration_files)

# CMake lists split at ';' and treat '[' specially. Both are replaced while a text is in a list.
string(ASCII 1 hidden_semicolon)
string(ASCII 2 hidden_open)
string(ASCII 3 hidden_close)
function(read_text file out)
  file(READ ${file} text)
  string(REPLACE ";" "${hidden_semicolon}" text "${text}")
  string(REPLACE "[" "${hidden_open}" text "${text}")
  string(REPLACE "]" "${hidden_close}" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
# The text of ${path}.sql, or of all files in the folder ${path}, in the order of their names.
function(read_parts path out)
  set(files ${path}.sql)
  if(IS_DIRECTORY ${path})
    file(GLOB files ${path}/*.sql)
    list(SORT files)
  endif()
  set(texts "")
  foreach(file IN LISTS files)
    read_text(${file} text)
    list(APPEND texts "${text}")
  endforeach()
  list(JOIN texts "\n" text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
function(show_text text out)
  string(REPLACE "${hidden_semicolon}" ";" text "${text}")
  string(REPLACE "${hidden_open}" "[" text "${text}")
  string(REPLACE "${hidden_close}" "]" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Reads the columns that a block declares, and removes the `-- returns:` lines from the text.
function(read_columns file name body out_body out_columns out_here)
  set(columns "")
  set(here FALSE)
  while(body MATCHES "(^|\n)-- returns( here)?: ([^\n]+)\n")
    if(CMAKE_MATCH_2)
      set(here TRUE)
    endif()
    set(line "-- returns${CMAKE_MATCH_2}: ${CMAKE_MATCH_3}\n")
    list(APPEND columns "${CMAKE_MATCH_3}")
    string(REPLACE "${line}" "" body "${body}")
  endwhile()
  list(JOIN columns ", " columns)
  string(REGEX REPLACE ",( *,)+" "," columns "${columns}")
  set(list "${columns}")
  string(REGEX REPLACE ", *" ";" list "${list}")
  foreach(column IN LISTS list)
    if(NOT column MATCHES "^([a-z_]+ (uuid|text|integer|boolean|time|bytes)|as [a-z_{}]+)$")
      message(FATAL_ERROR "${file}: ${name}: '${column}' is not '<name> <type>' "
              "(uuid, text, integer, boolean, time, bytes)")
    endif()
  endforeach()
  set(${out_body} "${body}" PARENT_SCOPE)
  set(${out_columns} "${list}" PARENT_SCOPE)
  set(${out_here} ${here} PARENT_SCOPE)
endfunction()

# Reads the blocks of a file: their number ${prefix}_count, and for each ${prefix}_<i>_name, _body,
# _columns and _here.
function(read_blocks file prefix)
  read_text(${file} text)
  string(REGEX MATCHALL "-- name: [a-z_0-9{}]+\n" marks "${text}")
  if(NOT marks)
    message(FATAL_ERROR "${file}: no '-- name: ...' block")
  endif()
  set(count 0)
  foreach(mark IN LISTS marks)
    string(REGEX REPLACE "-- name: ([a-z_0-9{}]+)\n" "\\1" name "${mark}")
    string(FIND "${text}" "${mark}" begin)
    string(LENGTH "${mark}" mark_length)
    math(EXPR begin "${begin} + ${mark_length}")
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "-- name: " end)
    string(SUBSTRING "${text}" 0 ${end} body)
    read_columns(${file} ${name} "${body}" body columns here)
    string(STRIP "${body}" body)
    string(REGEX REPLACE "${hidden_semicolon}$" "" body "${body}")
    set(${prefix}_${count}_name "${name}" PARENT_SCOPE)
    set(${prefix}_${count}_body "${body}" PARENT_SCOPE)
    set(${prefix}_${count}_columns "${columns}" PARENT_SCOPE)
    set(${prefix}_${count}_here ${here} PARENT_SCOPE)
    math(EXPR count "${count} + 1")
  endforeach()
  set(${prefix}_count ${count} PARENT_SCOPE)
endfunction()

# The columns of the other engines, by statement. Statements of one name return the same columns.
set(twin_names "")
set(twin_columns "")
get_filename_component(engines_dir ${SOURCE_DIR} DIRECTORY)
file(GLOB twin_files ${engines_dir}/*/sql/*.sql)
foreach(file IN LISTS twin_files)
  if(file IN_LIST sql_files)
    continue()
  endif()
  read_blocks(${file} twin)
  math(EXPR last "${twin_count} - 1")
  foreach(i RANGE ${last})
    if(twin_${i}_columns AND NOT twin_${i}_here)
      list(JOIN twin_${i}_columns ", " joined)
      list(APPEND twin_names "${twin_${i}_name}")
      list(APPEND twin_columns "${joined}")
    endif()
  endforeach()
endforeach()
function(compare_with_twins file name columns)
  list(JOIN columns ", " joined)
  foreach(twin_name twin IN ZIP_LISTS twin_names twin_columns)
    if(twin_name STREQUAL name AND NOT twin STREQUAL joined)
      message(FATAL_ERROR "${file}: ${name} returns other columns than in another engine:\n"
              "  ${joined}\n  ${twin}")
    endif()
  endforeach()
endfunction()

string(CONCAT header
       "// Generated from src/${ENGINE}/sql/*.sql.\n#pragma once\n"
       "#include \"storage/statement.hpp\"\n#include <span>\n#include <string_view>\n\n"
       "namespace dovetail::${ENGINE}::sql {\n")
string(CONCAT source
       "// Generated from src/${ENGINE}/sql/*.sql.\n#include \"${ENGINE}/sql.hpp\"\n\n"
       "namespace dovetail::${ENGINE}::sql {\n")
string(CONCAT positions
       "\n/// The positions of the columns that statements return.\nnamespace columns {\n"
       "// NOLINTBEGIN(readability-identifier-naming): named after the statements\n")
set(aliases "")
set(list "")
set(index 0)
set(names "")
set(all_queues "")
set(members "")
macro(embed_block name body columns)
  if(${name} IN_LIST names)
    message(FATAL_ERROR "${file}: the block ${name} is defined twice")
  endif()
  list(APPEND names ${name})
  string(APPEND header "extern const storage::Statement ${name};\n")
  string(APPEND source
         "const storage::Statement ${name}{"
         "${index}, \"${name}\", R\"__sql__(${body})__sql__\", \"${columns}\"};\n")
  string(APPEND list "&${name}, ")
  math(EXPR index "${index} + 1")
endmacro()
# Declares the positions of the columns of a block. Sets `column_names`, which is empty if the block
# declares none.
macro(embed_columns member columns)
  set(column_names "")
  if("${columns}" MATCHES "^as (.*)$")
    string(REPLACE "{queue}_" "" original "${CMAKE_MATCH_1}")
    if(NOT DEFINED columns_of_${original})
      message(FATAL_ERROR
              "${file}: ${member} returns the columns of ${original}, which declares none")
    endif()
    set(column_names "${columns_of_${original}}")
    string(APPEND aliases "using ${member} = ${original};\n")
  elseif(DEFINED columns_of_${member})
    set(column_names "${columns_of_${member}}")
    string(APPEND positions
           "struct ${member} {\n  enum : int { ${column_names} };\n};\n")
  endif()
endmacro()
foreach(file IN LISTS sql_files)
  read_text(${file} text)
  set(queues "")
  if(text MATCHES "^-- queues: ([a-z ]+)\n")
    string(REPLACE " " ";" queues "${CMAKE_MATCH_1}")
  endif()
  if(queues AND all_queues AND NOT queues STREQUAL all_queues)
    message(FATAL_ERROR "${file}: all files of queues begin with the same line")
  endif()
  if(queues)
    set(all_queues ${queues})
  endif()
  read_blocks(${file} block)
  math(EXPR last "${block_count} - 1")
  foreach(i RANGE ${last})
    if(block_${i}_columns AND NOT block_${i}_columns MATCHES "^as ")
      string(REPLACE "{queue}_" "" member "${block_${i}_name}")
      list(TRANSFORM block_${i}_columns REPLACE " .*$" "" OUTPUT_VARIABLE column_names)
      list(JOIN column_names ", " columns_of_${member})
    endif()
  endforeach()
  foreach(i RANGE ${last})
    set(name "${block_${i}_name}")
    set(columns "${block_${i}_columns}")
    if(columns AND NOT block_${i}_here)
      compare_with_twins(${file} ${name} "${columns}")
    endif()
    show_text("${block_${i}_body}" body)
    string(REPLACE "{queue}_" "" member "${name}")
    embed_columns(${member} "${columns}")
    if(NOT queues)
      embed_block(${name} "${body}" "${column_names}")
      continue()
    endif()
    list(APPEND members ${member})
    foreach(queue IN LISTS queues)
      string(REPLACE "{queue}" "${queue}" text_of_queue "${body}")
      embed_block(${queue}_${member} "${text_of_queue}" "${column_names}")
    endforeach()
  endforeach()
endforeach()
if(all_queues)
  string(APPEND header
         "\n/// The statements of one queue.\nstruct Queue {\n  std::string_view name;\n")
  foreach(member IN LISTS members)
    string(APPEND header "  const storage::Statement& ${member};\n")
  endforeach()
  string(APPEND header "};\n")
  foreach(queue IN LISTS all_queues)
    list(TRANSFORM members PREPEND "${queue}_" OUTPUT_VARIABLE of_queue)
    list(JOIN of_queue ", " of_queue)
    string(APPEND header "extern const Queue ${queue};\n")
    string(APPEND source "const Queue ${queue}{\"${queue}\", ${of_queue}};\n")
  endforeach()
endif()
string(APPEND header
       "${positions}${aliases}// NOLINTEND(readability-identifier-naming)\n"
       "}  // namespace columns\n")
string(APPEND header
       "\n/// Every statement above, by its index.\n"
       "std::span<const storage::Statement* const> statements();\n"
       "}  // namespace dovetail::${ENGINE}::sql\n")
string(APPEND source
       "\nstd::span<const storage::Statement* const> statements() {\n"
       "  static const storage::Statement* const all[] = {${list}};\n  return all;\n}\n"
       "}  // namespace dovetail::${ENGINE}::sql\n")
file(WRITE ${OUTPUT_DIR}/sql.hpp "${header}")
file(WRITE ${OUTPUT_DIR}/sql.cpp "${source}")

# grants/worker.sql and grants/producer.sql, with {schema} and {role} where the names go.
file(GLOB grant_files ${SOURCE_DIR}/grants/*.sql)
string(CONCAT source
       "// Generated from src/${ENGINE}/grants/*.sql.\n#include <string_view>\n\n"
       "namespace dovetail::${ENGINE} {\n")
foreach(file IN LISTS grant_files)
  get_filename_component(stem ${file} NAME_WE)
  read_text(${file} text)
  show_text("${text}" text)
  string(APPEND source
         "extern const std::string_view ${stem}_grants;\n"
         "const std::string_view ${stem}_grants{R\"__sql__(${text})__sql__\"};\n")
endforeach()
string(APPEND source "}  // namespace dovetail::${ENGINE}\n")
file(WRITE ${OUTPUT_DIR}/grants.cpp "${source}")

# A migration may be longer than the limit that the standard guarantees. Our compilers accept it.
string(CONCAT source
       "// Generated from src/${ENGINE}/migrations/*.sql.\n"
       "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
       "#include \"storage/migrator.hpp\"\n\nnamespace dovetail::${ENGINE} {\n"
       "std::span<const storage::Migration> migrations();\n"
       "std::span<const storage::Migration> migrations() {\n"
       "  static const storage::Migration all[] = {\n")
set(expected 1)
foreach(file IN LISTS migration_files)
  get_filename_component(stem ${file} NAME_WE)
  if(NOT stem MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9_]+)$")
    message(FATAL_ERROR "${file}: a migration is named NNNN_name.sql or NNNN_name/")
  endif()
  set(number ${CMAKE_MATCH_1})
  set(name ${CMAKE_MATCH_2})
  math(EXPR value "1${number} - 10000")
  if(NOT value EQUAL expected)
    message(FATAL_ERROR "${file}: expected number ${expected}; migrations have no gaps")
  endif()
  math(EXPR expected "${expected} + 1")
  read_parts(${SOURCE_DIR}/migrations/${stem} text)
  while(text MATCHES "-- template: ([a-z_0-9]+) queue=([a-z]+)\n")
    set(line "${CMAKE_MATCH_0}")
    set(queue ${CMAKE_MATCH_2})
    read_parts(${SOURCE_DIR}/migrations/templates/${CMAKE_MATCH_1} template)
    string(REPLACE "{queue}" "${queue}" template "${template}")
    string(REPLACE "${line}" "${template}" text "${text}")
  endwhile()
  set(compatible_with ${value})
  if(text MATCHES "(^|\n)-- compatible-with: ([0-9]+)\n")
    set(compatible_with ${CMAKE_MATCH_2})
  endif()
  if(compatible_with LESS 1 OR compatible_with GREATER value)
    message(FATAL_ERROR "${file}: compatible-with must be 1 to ${value}")
  endif()
  show_text("${text}" text)
  string(SHA256 checksum "${text}")
  string(APPEND source
         "    {${value}, \"${name}\", \"${checksum}\", ${compatible_with}, "
         "R\"__sql__(${text})__sql__\"},\n")
endforeach()
string(APPEND source "  };\n  return all;\n}\n}  // namespace dovetail::${ENGINE}\n")
file(WRITE ${OUTPUT_DIR}/migrations.cpp "${source}")

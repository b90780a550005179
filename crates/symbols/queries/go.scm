; What the published query leaves out: aliases, values, and fields.
; Names stand without their field: the library finds only the first of several in one field.

(type_alias name: (type_identifier) @name) @definition.type
(const_spec (identifier) @name) @definition.constant
(var_spec (identifier) @name) @definition.variable
(field_declaration (field_identifier) @name) @definition.field
(method_elem name: (field_identifier) @name) @definition.method
(package_clause (package_identifier) @name) @definition.module

//! `#[derive(Row)]`, which makes a struct the row of a typed table. The trait `pando_rows::Row` documents the
//! attributes; this crate only generates the implementation from the fields and attributes.
//!
//! 1. `table` reads the struct's attributes: the table's name, its indexes, the path of the library.
//! 2. `column` reads a field's: whether it is in the primary key, its default.
//! 3. [`macro@Row`] writes the two implementations, `Columns` and `Row`.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, Ident, LitStr, Path, Result, parse_macro_input};

/// Makes a struct the row of a typed table: see the trait `pando_rows::Row`.
#[proc_macro_derive(Row, attributes(row))]
pub fn derive_row(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// The attributes of the struct.
struct Table {
    name: LitStr,
    /// Name, parts, unique.
    indexes: Vec<(LitStr, LitStr, bool)>,
    /// The path of `pando_rows` where the struct is.
    root: TokenStream,
}

/// What is said of a field.
struct Column<'f> {
    field: &'f Field,
    ident: &'f Ident,
    name: LitStr,
    is_key: bool,
    descending: bool,
    default: Option<Expr>,
}

/// Returns what an identifier names, changed. It has no `r#`, with which Rust marks a name that is also a keyword.
fn name_of(ident: &Ident, change: impl Fn(String) -> String) -> LitStr {
    LitStr::new(&change(ident.unraw().to_string()), ident.span())
}

fn table(input: &DeriveInput) -> Result<Table> {
    let mut name = name_of(&input.ident, |name| name.to_lowercase());
    let mut indexes = Vec::new();
    let mut root = quote!(::pando_rows);
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("table") {
                name = meta.value()?.parse()?;
                return Ok(());
            }
            if meta.path.is_ident("crate") {
                root = meta.value()?.call(Path::parse_mod_style)?.into_token_stream();
                return Ok(());
            }
            let unique = meta.path.is_ident("unique");
            if !unique && !meta.path.is_ident("index") {
                return Err(meta.error(
                    "unknown attribute: a table can have `table = \"name\"`, `index(name = \
                     \"columns\")`, `unique(...)` and `crate = path`",
                ));
            }
            meta.parse_nested_meta(|index| {
                let ident = index.path.require_ident()?;
                let name = name_of(ident, |name| name);
                indexes.push((name, index.value()?.parse()?, unique));
                Ok(())
            })
        })?;
    }
    Ok(Table { name, indexes, root })
}

fn column(field: &Field) -> Result<Column<'_>> {
    let ident = field.ident.as_ref().ok_or_else(|| Error::new(field.span(), "a field needs a name"))?;
    let mut name = name_of(ident, |name| name);
    let (mut is_key, mut descending, mut default) = (false, false, None);
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("row")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("key") {
                is_key = true;
            } else if meta.path.is_ident("descending") {
                descending = true;
            } else if meta.path.is_ident("default") {
                default = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("name") {
                name = meta.value()?.parse()?;
            } else {
                return Err(meta.error(
                    "unknown attribute: a column can have `key`, `descending`, `default = \
                                value` and `name = \"name\"`",
                ));
            }
            Ok(())
        })?;
    }
    if descending && !is_key {
        return Err(Error::new(field.span(), "`descending` needs `key`"));
    }
    Ok(Column { field, ident, name, is_key, descending, default })
}

fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "a row must be a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.span(), "a row must be a struct with named fields"));
    };
    let table = table(input)?;
    let columns = fields.named.iter().map(column).collect::<Result<Vec<_>>>()?;
    let key: Vec<&Column<'_>> = columns.iter().filter(|column| column.is_key).collect();
    if key.is_empty() {
        return Err(Error::new(input.span(), "mark the fields of the primary key: `#[row(key)]`"));
    }
    let (definition, implemented) = (definition(&table, &columns), values(&table.root, &columns));
    let (key_type, key_value) = key_of(&table.root, &key);
    let (name, ident, root) = (&table.name, &input.ident, &table.root);
    let (columns_impl, from_values) = implemented;
    Ok(quote! {
        #[automatically_derived]
        impl #root::Columns for #ident {
            #columns_impl
        }

        #[automatically_derived]
        impl #root::Row for #ident {
            type Key<'k> = #key_type;
            const TABLE: &'static str = #name;
            fn definition() -> #root::Definition {
                #definition
            }
            fn key(&self) -> Self::Key<'_> {
                #key_value
            }
            #from_values
        }
    })
}

fn definition(table: &Table, columns: &[Column<'_>]) -> TokenStream {
    let (name, root) = (&table.name, &table.root);
    let added = columns.iter().map(|column| {
        let (name, kind) = (&column.name, &column.field.ty);
        let default = column.default.as_ref().map(|value| {
            quote! {
                let default = <#kind as ::core::convert::From<_>>::from(#value);
                let column = column.default(#root::Field::value(&default).into_owned());
            }
        });
        quote! {
            let column = #root::Column::new(#name, <#kind as #root::Field>::TYPE);
            let column = if <#kind as #root::Field>::NULLABLE { column.nullable() } else { column };
            #default
            let definition = definition.column(column);
        }
    });
    let parts = columns.iter().filter(|column| column.is_key).map(|column| {
        let name = &column.name;
        let descending = column.descending.then(|| quote!(.descending()));
        quote!(#root::Part::new(#name)#descending)
    });
    let indexes = table.indexes.iter().map(|(name, parts, unique)| {
        let unique = unique.then(|| quote!(.unique()));
        quote!(let definition = definition.index(#root::IndexDefinition::on(#name, #parts)#unique);)
    });
    quote! {
        let definition = #root::Definition::new(#name);
        #(#added)*
        let definition = definition.key([#(#parts),*]);
        #(#indexes)*
        definition
    }
}

/// Returns the methods that lend the values, and the method that takes them back.
fn values(root: &TokenStream, columns: &[Column<'_>]) -> (TokenStream, TokenStream) {
    let count = columns.len();
    let lent = columns.iter().enumerate().map(|(place, column)| {
        let ident = column.ident;
        quote!(#place => #root::Field::value(&self.#ident),)
    });
    let columns_impl = quote! {
        fn count(&self) -> usize {
            #count
        }
        #[inline]
        fn value(&self, place: usize) -> #root::Value<'_> {
            match place {
                #(#lent)*
                _ => ::core::panic!("column {place} of {}", #count),
            }
        }
    };
    let fields: Vec<Ident> = (0..count).map(|place| format_ident!("value_{place}")).collect();
    let names = columns.iter().map(|column| &column.name);
    let idents = columns.iter().map(|column| column.ident);
    let from_values = quote! {
        fn from_values(values: ::std::vec::Vec<#root::Value<'_>>) -> #root::EngineResult<Self> {
            let found = values.len();
            let taken = <[#root::Value<'_>; #count]>::try_from(values);
            let ::core::result::Result::Ok([#(#fields),*]) = taken else {
                return ::core::result::Result::Err(#root::wrong_count::<Self>(found, #count));
            };
            ::core::result::Result::Ok(Self {
                #(#idents: #root::field_from::<Self, _>(#names, #fields)?,)*
            })
        }
    };
    (columns_impl, from_values)
}

/// Returns the type of the primary key, and the key of a row: one value alone, several as a tuple.
fn key_of(root: &TokenStream, key: &[&Column<'_>]) -> (TokenStream, TokenStream) {
    let types = key.iter().map(|column| {
        let kind = &column.field.ty;
        quote!(<#kind as #root::Field>::Lent<'k>)
    });
    let values = key.iter().map(|column| {
        let ident = column.ident;
        quote!(#root::Field::lend(&self.#ident))
    });
    match key.len() {
        1 => (quote!(#(#types)*), quote!(#(#values)*)),
        _ => (quote!((#(#types),*)), quote!((#(#values),*))),
    }
}
